"""Whether the frameworks that stand side by side did equal work, and how that was shown."""

from collections.abc import Iterator

from trainmark.equivalence import Certificate, Check, Pair, Party, Subject
from trainmark.report.axes import Aspect
from trainmark.report.blocks import Block, Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.store import Results

NOT_EQUAL = "≠"
"""The mark of a framework whose work was compared and found different."""

PAIR_SUBJECTS = (
    Subject.ACTIVATIONS,
    Subject.LOGITS,
    Subject.LOSS,
    Subject.GRADIENTS,
    Subject.UPDATES,
    Subject.BATCH_MEANS,
    Subject.BATCH_VARIANCES,
)


def section(context: Context) -> Section | None:
    """Return the section of the certificates, or None when there are none."""
    certificates = context.results.certificates
    if not certificates:
        return None
    say = context.say
    blocks: list[Block] = [Paragraph(plain(say("equivalence_caption")))]
    for certificate in certificates:
        blocks.append(_parties(context, certificate))
        if certificate.pairs:
            blocks.append(_pairs(context, certificate))
    return Section("equivalence", say("equivalence_title"), tuple(blocks))


def equality(context: Context) -> Iterator[tuple[str, bool]]:
    """Yield the sentences that belong to tables of several frameworks, and whether each is an alert.

    One a model: that the work was equal, that it was not and where, or that nothing shows either.
    """
    say, results = context.say, context.results
    for model, frameworks in _compared(results).items():
        certificate = _certificate(results, model)
        if certificate is None:
            several = Aspect.MODEL in context.axes.varying
            yield (say("no_certificate_for", model=model) if several else say("no_certificate")), False
            continue
        failures = [
            say("not_equal_at", names=say.joined(names), subject=say(f"subject_{check.subject.value}"))
            for names, check in certificate.failures()
        ]
        unseen = sorted(name for name in certificate.absent if name in frameworks)
        if failures:
            yield say("certificate_fails", model=model, what="; ".join(dict.fromkeys(failures))), True
        if unseen:
            yield say("certificate_lacks", model=model, names=say.joined(unseen)), True
        if not failures and not unseen:
            yield say("certificate_holds", model=model, names=say.joined(sorted(frameworks))), False


def is_equal(results: Results, model: str, framework: str) -> bool:
    """Return whether nothing speaks against a framework's work; where nothing was compared, nothing does."""
    certificate = _certificate(results, model)
    return certificate is None or certificate.covers({framework})


def _compared(results: Results) -> dict[str, set[str]]:
    """Return for each model the frameworks that have a number, where they are several."""
    found: dict[str, set[str]] = {}
    for case in results.cases:
        if case.estimate:
            found.setdefault(case.case.model, set()).add(case.case.framework)
    return {model: frameworks for model, frameworks in found.items() if len(frameworks) > 1}


def _certificate(results: Results, model: str) -> Certificate | None:
    return next((found for found in results.certificates if found.model == model), None)


def _parties(context: Context, certificate: Certificate) -> Table:
    say = context.say
    columns = (
        Column(say("aspect_framework"), numeric=False),
        Column(say("aspect_layout"), numeric=False),
        Column(say("column_parameters")),
        Column(say("column_multiply_adds")),
        Column(say("column_rates")),
        Column(say("column_momentum")),
        Column(say("column_decaying")),
        Column(say("column_verdict"), numeric=False),
    )
    rows = [_party(context, party) for party in certificate.parties]
    rows += [
        (cell(name), *(cell("-") for _ in columns[2:]), cell(say("not_looked_at"), reason))
        for name, reason in certificate.absent.items()
    ]
    heading = say(
        "equivalence_heading",
        model=certificate.model,
        steps=certificate.steps,
        batch=certificate.batch,
        size=certificate.image_size,
    )
    return Table(heading, columns, tuple(rows))


def _party(context: Context, party: Party) -> tuple[Cell, ...]:
    say = context.say
    wrong = [_told(context, check) for check in party.checks if not check.holds]
    return (
        cell(party.framework, party.version or ""),
        cell(party.layout),
        cell(f"{party.parameters:,}"),
        cell(f"{party.multiply_adds:,}"),
        cell(say.joined([f"{rate:.4g}" for rate in party.learning_rates])),
        cell(say.joined([f"{value:.3f}" for value in party.momentum])),
        cell(str(party.decaying)),
        cell(say("as_described")) if not wrong else cell(f"{NOT_EQUAL} {'; '.join(wrong)}"),
    )


def _pairs(context: Context, certificate: Certificate) -> Table:
    say = context.say
    columns = (
        Column(say("column_pair"), numeric=False),
        *(Column(say(f"subject_{subject.value}")) for subject in PAIR_SUBJECTS),
        Column(say("column_verdict"), numeric=False),
    )
    limits = {check.subject: check.tolerance for pair in certificate.pairs for check in pair.checks}
    tolerances = (
        cell(say("tolerance")),
        *(cell(f"{limits[subject]:g}" if subject in limits else "-") for subject in PAIR_SUBJECTS),
        cell(""),
    )
    remarks = dict.fromkeys(
        check.remark for pair in certificate.pairs for check in pair.checks if check.remark and check.holds
    )
    rows = (*(_pair(context, pair) for pair in certificate.pairs), tolerances)
    return Table("", columns, rows, tuple(remarks))


def _pair(context: Context, pair: Pair) -> tuple[Cell, ...]:
    found = {check.subject: check for check in pair.checks}
    wrong = [_told(context, check) for check in pair.checks if not check.holds]
    return (
        cell(" = ".join(pair.frameworks)),
        *(_deviation(found.get(subject)) for subject in PAIR_SUBJECTS),
        cell(context.say("equal")) if not wrong else cell(f"{NOT_EQUAL} {'; '.join(wrong)}"),
    )


def _deviation(check: Check | None) -> Cell:
    if check is None:
        return cell("-")
    return cell(f"{check.deviation:.1e}" + ("" if check.holds else f" {NOT_EQUAL}"))


def _told(context: Context, check: Check) -> str:
    words = [context.say(f"subject_{check.subject.value}"), check.where or "", check.remark or ""]
    return " ".join(word for word in words if word)
