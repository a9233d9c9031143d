"""A certificate as text for a terminal."""

from collections.abc import Iterator

from trainmark.schema.certificate import Certificate, Check
from trainmark.schema.precision import Precision
from trainmark.tasks import find_task, task_of_model


def render_certificate(certificate: Certificate) -> str:
    """Return the certificate as lines: each framework, each pair, and the failed checks."""
    return "\n".join(_lines(certificate)) + "\n"


def _lines(certificate: Certificate) -> Iterator[str]:
    yield (
        f"{model_label(certificate)}: {certificate.steps} training steps in "
        f"{certificate.precision.value.upper()}, batch {certificate.batch}, {shape_label(certificate)}"
    )
    for party in certificate.parties:
        rates = ", ".join(f"{rate:.4g}" for rate in party.learning_rates)
        momentum = (
            f"momentum {', '.join(f'{value:.4f}' for value in party.momentum)}, " if party.momentum else ""
        )
        solved = (
            "" if party.decaying is None else f", rates {rates}, {momentum}{party.decaying} parameters decay"
        )
        yield (
            f"  {party.framework:<11} {party.version or '-':<10} {party.parameters:,} parameters, "
            f"{party.multiply_adds / 1e6:,.1f} M multiply-adds{solved}: {'ok' if party.holds else 'DIFFERENT'}"
        )
        yield from (f"      {_check_line(check)}" for check in party.checks if not check.holds)
        for variant in party.variants:
            words = (*map(str, variant.axes.values()), f"compiler {variant.compiler}")
            way = f"{party.framework} in {', '.join(words)}"
            if variant.absent is not None:
                yield f"      {way}: not checked: {variant.absent}"
                continue
            closest = {check.subject.value: check for check in variant.checks}
            deviations = ", ".join(
                f"{name} {closest[name].deviation:.1e}" for name in ("loss", "updates") if name in closest
            )
            yield f"      {way}: {deviations}: {'ok' if variant.holds else 'DIFFERENT'}"
            yield from (f"          {_check_line(check)}" for check in variant.checks if not check.holds)
    for pair in certificate.pairs:
        closest = {check.subject.value: check for check in pair.checks}
        subjects = ("logits", "loss", "gradients")
        deviations = ", ".join(f"{name} {closest[name].deviation:.1e}" for name in subjects)
        names = f"{pair.frameworks[0]} = {pair.frameworks[1]}"
        yield f"  {names:<25} {deviations}: {'ok' if pair.holds else 'DIFFERENT'}"
        yield from (f"      {_check_line(check)}" for check in pair.checks if not check.holds)
    yield from (f"  {name:<11} not checked: {reason}" for name, reason in certificate.absent.items())
    yield f"  {'equal work' if certificate.holds else 'NOT shown to be equal work'}"


def model_label(certificate: Certificate) -> str:
    """Return the model with the values of its task's fixed axes, such as the optimizer, in brackets.

    A precision other than FP32, and the sizes of a reduced form, are there too.
    """
    labels = find_task(task_of_model(certificate.model)).labels
    rules = [
        labels[axis].short.format(value) if axis in labels else f"{axis} {value}"
        for axis, value in certificate.rules.items()
        if value != "none"
    ]
    if certificate.precision is not Precision.FP32:
        rules.append(certificate.precision.value)
    if certificate.reduced:
        rules.append(f"reduced: {certificate.reduced}")
    return f"{certificate.model} ({', '.join(rules)})" if rules else certificate.model


def shape_label(certificate: Certificate) -> str:
    """Return the shape of the check's inputs in the task's notation: ``96 px``.

    The model may be one of an extension that is not installed here; its axes have no notation.
    """
    labels = find_task(task_of_model(certificate.model)).labels
    return ", ".join(
        labels[axis].value.format(value) if axis in labels else f"{axis} {value}"
        for axis, value in certificate.axes.items()
    )


def _check_line(check: Check) -> str:
    where = f" at {check.where}" if check.where else ""
    remark = f" ({check.remark})" if check.remark else ""
    return f"{check.subject.value}{where}: {check.deviation:.2g}, tolerance {check.tolerance:g}{remark}"
