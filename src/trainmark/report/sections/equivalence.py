"""Section on the certificates of equal work between the compared frameworks."""

from collections.abc import Iterable, Iterator

from trainmark.equivalence.render import model_label, shape_label
from trainmark.report.blocks import Block, Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import COMPILER, Context
from trainmark.report.sections.throughput import NOT_EQUAL, subject_matter
from trainmark.schema.certificate import Certificate, Check, Party, Subject
from trainmark.schema.precision import Precision
from trainmark.tasks import TASKS, AxisLabel, task_of_model

PAIR_SUBJECTS = (
    Subject.ACTIVATIONS,
    Subject.LOGITS,
    Subject.LOSS,
    Subject.GRADIENT_NORM,
    Subject.GRADIENTS,
    Subject.UPDATE_NORM,
    Subject.UPDATES,
    Subject.BATCH_MEANS,
    Subject.BATCH_VARIANCES,
    Subject.ROUNDING,
)


def equivalence_section(context: Context) -> Section:
    """Return the section of the certificates; the results have some."""
    certificates = context.results.certificates
    say = context.say
    captions = [say("equivalence_caption")]
    if any(party.variants for certificate in certificates for party in certificate.parties):
        captions.append(say("equivalence_variants"))
    if any(certificate.precision is not Precision.FP32 for certificate in certificates):
        captions.append(say("equivalence_rounding"))
    if any(certificate.reduced for certificate in certificates):
        captions.append(say("equivalence_reduced"))
    blocks: list[Block] = [Paragraph(plain(say("space").join(captions)))]
    for certificate in certificates:
        blocks.append(_parties(context, certificate))
        if certificate.pairs:
            blocks.append(_pairs(context, certificate))
        if any(party.variants for party in certificate.parties):
            blocks.append(_variants(context, certificate))
    return Section("equivalence", say("equivalence_title"), tuple(blocks))


def _parties(context: Context, certificate: Certificate) -> Table:
    say = context.say
    columns = (
        Column(say("aspect_framework"), numeric=False),
        Column(_way(context, certificate)[0], numeric=False),
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
    devices = sorted({party.device for party in certificate.parties if party.device})
    heading = say(
        "equivalence_heading",
        what=subject_matter(context, model_label(certificate), devices),
        steps=certificate.steps,
        batch=certificate.batch,
        size=shape_label(certificate),
    )
    reached = [party.reach for party in certificate.parties if party.reach is not None]
    notes = []
    if reached:
        low, high = max(low for low, _ in reached), min(high for _, high in reached)
        notes.append(say("reach_note", low=f"{low:.3g}", high=f"{high:.3g}"))
    return Table(heading, columns, tuple(rows), tuple(notes))


def _party(context: Context, party: Party) -> tuple[Cell, ...]:
    say = context.say
    return (
        cell(party.framework, party.version or ""),
        cell(", ".join(map(str, party.axes.values())) or party.compiler),
        cell(f"{party.parameters:,}"),
        cell(f"{party.multiply_adds:,}"),
        cell(say.joined([f"{rate:.4g}" for rate in party.learning_rates]) or "-"),
        cell(say.joined([f"{value:.3f}" for value in party.momentum]) or "-"),
        cell("-" if party.decaying is None else str(party.decaying)),
        _verdict(context, party.checks, "as_described"),
    )


def _pairs(context: Context, certificate: Certificate) -> Table:
    checks = [check for pair in certificate.pairs for check in pair.checks]
    subjects = _among(PAIR_SUBJECTS, checks)
    rows = [
        (
            cell(" = ".join(pair.frameworks)),
            *_deviations(pair.checks, subjects),
            _verdict(context, pair.checks, "equal"),
        )
        for pair in certificate.pairs
    ]
    remarks = dict.fromkeys(check.remark for check in checks if check.remark and check.holds)
    columns = (Column(context.say("column_pair"), numeric=False), *_deviation_columns(context, subjects))
    rows.append((cell(context.say("tolerance")), *_tolerances(checks, subjects), cell("")))
    return Table("", columns, tuple(rows), tuple(map(context.say.translated, remarks)))


def _variants(context: Context, certificate: Certificate) -> Table:
    """Return how much other training variants deviate from their framework's observed step."""
    say = context.say
    variants = [(party.framework, found) for party in certificate.parties for found in party.variants]
    checks = [check for _, found in variants for check in found.checks]
    subjects = _among((Subject.PARAMETERS, *PAIR_SUBJECTS), checks)
    rows = [
        (
            cell(name),
            *(cell(word) for word in found.way),
            *_deviations(found.checks, subjects),
            cell(say("not_looked_at"), found.absent)
            if found.absent is not None
            else _verdict(context, found.checks, "as_observed"),
        )
        for name, found in variants
    ]
    sides = (say("aspect_framework"), *_way(context, certificate))
    columns = (*(Column(side, numeric=False) for side in sides), *_deviation_columns(context, subjects))
    rows.append(
        (cell(say("tolerance")), *(cell("") for _ in sides[1:]), *_tolerances(checks, subjects), cell(""))
    )
    return Table("", columns, tuple(rows))


def _way(context: Context, certificate: Certificate) -> tuple[str, ...]:
    """Return the words for the axes of a training variant."""
    task = TASKS[task_of_model(certificate.model)]
    labels = (task.labels.get(axis, AxisLabel(axis, axis)) for axis in task.variant_axes)
    return (*(getattr(label, context.say.language.value) for label in labels), context.aspect(COMPILER))


def _among(subjects: Iterable[Subject], checks: Iterable[Check]) -> list[Subject]:
    """Return those of the subjects that were checked."""
    checked = {check.subject for check in checks}
    return [subject for subject in subjects if subject in checked]


def _deviation_columns(context: Context, subjects: Iterable[Subject]) -> Iterator[Column]:
    yield from (Column(context.say(f"subject_{subject.value}")) for subject in subjects)
    yield Column(context.say("column_verdict"), numeric=False)


def _deviations(checks: Iterable[Check], subjects: Iterable[Subject]) -> Iterator[Cell]:
    found = {check.subject: check for check in checks}
    yield from (_deviation(found.get(subject)) for subject in subjects)


def _deviation(check: Check | None) -> Cell:
    if check is None:
        return cell("-")
    reported = f"{check.deviation:.1e}" if check.tolerance else f"{check.deviation:g}"
    return cell(reported + ("" if check.holds else f" {NOT_EQUAL}"))


def _tolerances(checks: Iterable[Check], subjects: Iterable[Subject]) -> Iterator[Cell]:
    limits = {check.subject: check.tolerance for check in checks}
    yield from (cell(f"{limits[subject]:g}") for subject in subjects)


def _verdict(context: Context, checks: Iterable[Check], fine: str) -> Cell:
    wrong = [_reported(context, check) for check in checks if not check.holds]
    if not wrong:
        return cell(context.say(fine))
    return cell(f"{NOT_EQUAL} {context.say('semicolon').join(wrong)}")


def _reported(context: Context, check: Check) -> str:
    words = [context.say(f"subject_{check.subject.value}"), check.where or "", check.remark or ""]
    return " ".join(word for word in words if word)
