"""Section on the certificates of equal work between the compared frameworks."""

from collections.abc import Iterable, Iterator, Sequence

from trainmark.equivalence.render import model_label, shape_label
from trainmark.report.blocks import Block, Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import COMPILER, Context
from trainmark.schema.certificate import Certificate, Check, Party, Subject
from trainmark.schema.findings import Difference, EqualityFinding, Verdict, Work
from trainmark.schema.precision import Precision
from trainmark.schema.task_catalogue import task_of_model
from trainmark.tasks import TASKS, AxisLabel

NOT_EQUAL = "≠"
"""The mark of a framework whose work was compared and found different."""

_MOST_SIZES = 3
"""Of more sizes of an axis, only the smallest and the largest are named."""

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


def section(context: Context) -> Section | None:
    """Return the section of the certificates, or None if there are none."""
    certificates = context.results.certificates
    if not certificates:
        return None
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


def equality(context: Context) -> Iterator[tuple[str, bool]]:
    """Yield the sentences on equal work, and whether each is an alert.

    For each model and device: the work is equal, or it differs and where, or for which columns it is unknown.
    """
    found = context.findings.equality
    for comparison in found:
        yield from _sentences(context, comparison, alone=len(found) == 1)
        if comparison.unchecked_sizes:
            yield _unchecked_sizes(context, comparison), False
    precisions = {result.case.precision for result in context.results.cases if result.estimate}
    compared = {comparison.precision for comparison in found}
    others = sorted(precision.value for precision in precisions - compared - {Precision.FP32})
    if others and any(_claimed(comparison) for comparison in found):
        yield context.say("only_fp32_compared", precisions=context.say.joined(others)), False


def _sentences(context: Context, comparison: EqualityFinding, alone: bool) -> Iterator[tuple[str, bool]]:
    say = context.say
    model = comparison.model
    low = comparison.precision is not Precision.FP32
    rules = [*comparison.rules, *([comparison.precision.value] if low else [])]
    if rules:
        model = say("work", name=model, way=say.joined(rules))
    what = _subject_matter(context, model, comparison.devices)
    differences = [_difference(context, found) for found in comparison.differences]
    if differences:
        reported = say("semicolon").join(dict.fromkeys(differences))
        yield say("certificate_fails", what=what, differences=reported), True
    unseen = comparison.with_verdict(Verdict.UNSEEN)
    if unseen:
        yield say("certificate_lacks", what=what, names=_joined(context, unseen)), True
    if low and comparison.golden and not differences:
        names, precision = say.joined(list(comparison.golden)), comparison.precision.value
        yield say("certificate_rounded", what=what, names=names, precision=precision), False
        yield from _rest(context, comparison, what)
        return
    if comparison.golden and len({work.framework for work in comparison.works}) < 2:
        yield say("certificate_golden", what=what, names=say.joined(list(comparison.golden))), False
        return
    if comparison.holds:
        key = "certificate_holds_variants" if comparison.by_variant else "certificate_holds"
        yield say(key, what=what, names=say.joined(list(comparison.observed))), False
        return
    # With only one framework for these rules, there is nothing to compare.
    variants = {work.framework for work in comparison.with_verdict(Verdict.VARIANT)}
    if not (differences or unseen or len(variants) > 1 or _claimed(comparison)):
        yield (say("no_certificate") if alone else say("no_certificate_for", what=what)), False
        return
    if _claimed(comparison):
        yield say("certificate_observed", what=what, names=say.joined(list(comparison.observed))), False
    yield from _rest(context, comparison, what)


def _unchecked_sizes(context: Context, comparison: EqualityFinding) -> str:
    """Return that nothing was compared at the sizes of the cases, and at which sizes it was."""
    say, labels = context.say, TASKS[task_of_model(comparison.model)].labels

    def named(axis: str, *sizes: int) -> str:
        label = labels.get(axis)
        name = say("aspect_batch") if label is None else getattr(label, say.language.value)
        values = [label.value.format(size) if label is not None else str(size) for size in sizes]
        shown = values if len(values) <= _MOST_SIZES else [say("range", low=values[0], high=values[-1])]
        return say("aspect_is", aspect=name, value=say.joined(shown))

    return say(
        "certificate_sizes",
        what=_subject_matter(context, comparison.model, comparison.devices),
        sizes=say("semicolon").join(named(size.axis, *size.of_cases) for size in comparison.unchecked_sizes),
        checked=say("semicolon").join(named(size.axis, size.checked) for size in comparison.unchecked_sizes),
    )


def _rest(context: Context, comparison: EqualityFinding, what: str) -> Iterator[tuple[str, bool]]:
    """Yield the sentences on the works that the certificate does not cover."""
    for verdict in (Verdict.PROGRAM, Verdict.FRAMEWORK, Verdict.VARIANT):
        if rest := comparison.with_verdict(verdict):
            yield (
                context.say(f"certificate_without_{verdict}", what=what, names=_joined(context, rest)),
                False,
            )


def _claimed(comparison: EqualityFinding) -> bool:
    return len(comparison.observed) > 1 or bool(comparison.golden)


def _subject_matter(context: Context, model: str, devices: Sequence[str]) -> str:
    """Return a model with the devices on which it was trained, if known."""
    if not devices:
        return model
    return context.say("model_on", model=model, devices=context.say.joined(list(devices)))


def _difference(context: Context, found: Difference) -> str:
    say, subject = context.say, context.say(f"subject_{found.check.subject.value}")
    way = say.joined([*found.way, *found.rules])
    names = [say("work", name=name, way=way) if way else name for name in found.frameworks]
    if found.way:
        return say("not_as_observed", name=names[0], subject=subject)
    if len(names) == 1:
        return say("not_as_described", name=names[0], subject=subject)
    return say("not_equal_at", names=say.joined(names), subject=subject)


def _joined(context: Context, works: Iterable[Work]) -> str:
    return context.say.joined(list(dict.fromkeys(_label(context, work) for work in works)))


def _label(context: Context, work: Work) -> str:
    return context.say("work", name=work.name, way=context.say.joined(work.way))


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
        what=_subject_matter(context, model_label(certificate), devices),
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
