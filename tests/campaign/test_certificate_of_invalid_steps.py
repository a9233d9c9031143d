"""A worker whose first step is not what was asked for ends invalid, and the certificate says why it does not hold."""

import json
from pathlib import Path

import pytest

from frameworks import framework_python, in_pytorch
from trainmark.campaign.certifying import certify_environments
from trainmark.equivalence import render_certificate

MODEL = "bert_tiny"
MUTATED = Path(__file__).parents[1] / "programs" / "mutated_worker.py"


def home_with_mistake(folder: Path, mistake: str) -> Path:
    """Return a home whose environment of PyTorch is the real one, but its Python makes a mistake in the worker."""
    python, made = Path(framework_python("pytorch")), folder / "envs" / "pytorch"
    (made / "bin").mkdir(parents=True)
    stamp = json.loads((python.parents[1] / "environment.json").read_text())
    (made / "environment.json").write_text(json.dumps({**stamp, "location": str(made)}))
    wrapper = made / "bin" / "python"
    wrapper.write_text(
        "#!/bin/sh\n"
        f'case "$1" in */worker/start.py) shift; set -- "{MUTATED}" {mistake} "$@";; esac\n'
        f'exec "{python}" "$@"\n'
    )
    wrapper.chmod(0o755)
    return folder


@pytest.mark.training
@in_pytorch
@pytest.mark.parametrize(
    ("mistake", "reported"),
    [
        ("eighty", "predictions of the first step was 32, not 8 as requested"),
        pytest.param(
            "all-words", "predictions of the first step was 48, not 8 as requested", marks=pytest.mark.rare
        ),
        ("padding-counted", "192 tokens of a batch are counted as non-padding, but it has 144"),
    ],
)
def test_the_certificate_does_not_hold_and_names_what_the_first_step_did(
    mistake: str, reported: str, tmp_path: Path
) -> None:
    (certificate,) = certify_environments(
        ["pytorch", "paddle"], [MODEL], home_with_mistake(tmp_path, mistake), announce=lambda _: None
    )
    assert not certificate.parties
    assert certificate.absent["pytorch"] == f"invalid: {reported}"
    assert not certificate.holds
    assert f"not checked: invalid: {reported}" in render_certificate(certificate)
