"""A certificate as text for a terminal."""

from collections.abc import Iterator

from trainmark.words.certificate import Certificate, Check


def render_certificate(certificate: Certificate) -> str:
    """Return the certificate as lines: each framework, each pair, and what does not hold."""
    return "\n".join(_lines(certificate)) + "\n"


def _lines(certificate: Certificate) -> Iterator[str]:
    yield (
        f"{certificate.model}: {certificate.steps} training steps in FP32, batch {certificate.batch}, "
        f"{certificate.image_size} px"
    )
    for party in certificate.parties:
        rates = ", ".join(f"{rate:.4g}" for rate in party.learning_rates)
        momentum = ", ".join(f"{value:.4f}" for value in party.momentum)
        yield (
            f"  {party.framework:<11} {party.version or '-':<10} {party.parameters:,} parameters, "
            f"{party.multiply_adds / 1e6:,.1f} M multiply-adds, rates {rates}, momentum {momentum}, "
            f"{party.decaying} parameters decay: {'ok' if party.holds else 'DIFFERENT'}"
        )
        yield from (f"      {_told(check)}" for check in party.checks if not check.holds)
        for variant in party.variants:
            way = f"{party.framework} in {variant.layout}, compiler {variant.compiler}"
            if variant.absent is not None:
                yield f"      {way}: not looked at: {variant.absent}"
                continue
            closest = {check.subject.value: check for check in variant.checks}
            told = ", ".join(f"{name} {closest[name].deviation:.1e}" for name in ("loss", "updates"))
            yield f"      {way}: {told}: {'ok' if variant.holds else 'DIFFERENT'}"
            yield from (f"          {_told(check)}" for check in variant.checks if not check.holds)
    for pair in certificate.pairs:
        closest = {check.subject.value: check for check in pair.checks}
        told = ", ".join(f"{name} {closest[name].deviation:.1e}" for name in ("logits", "loss", "gradients"))
        names = f"{pair.frameworks[0]} = {pair.frameworks[1]}"
        yield f"  {names:<25} {told}: {'ok' if pair.holds else 'DIFFERENT'}"
        yield from (f"      {_told(check)}" for check in pair.checks if not check.holds)
    yield from (f"  {name:<11} not looked at: {reason}" for name, reason in certificate.absent.items())
    yield f"  {'equal work' if certificate.holds else 'NOT shown to be equal work'}"


def _told(check: Check) -> str:
    where = f" at {check.where}" if check.where else ""
    remark = f" ({check.remark})" if check.remark else ""
    return f"{check.subject.value}{where}: {check.deviation:.2g}, tolerance {check.tolerance:g}{remark}"
