"""A worker whose first step is not what was asked for ends invalid, and the certificate says why it does not hold."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from frameworks import framework_python, in_pytorch
from in_process import MISTAKEN_WORKER, WORKER, InProcessHost
from trainmark.campaign.certifying import certify_environments
from trainmark.equivalence import render_certificate
from trainmark.node import Job

MODEL = "bert_tiny"


class HostWithMistake(InProcessHost):
    """This machine, where the worker of PyTorch makes a mistake."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self._mistake = mistake

    def start(self, job: Job) -> int:
        """Start the job, a worker with the mistake."""
        (command,) = job.commands
        if WORKER in command.words:
            python, _, *words = command.words
            mistaken = replace(command, words=(python, MISTAKEN_WORKER, self._mistake, *words))
            job = replace(job, commands=(mistaken,))
        return super().start(job)


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
    environment = tmp_path / "envs" / "pytorch"
    environment.parent.mkdir()
    environment.symlink_to(Path(framework_python("pytorch")).parents[1])
    with patch("trainmark.campaign.certifying.LocalHost", lambda: HostWithMistake(mistake)):
        (certificate,) = certify_environments(
            ["pytorch", "paddle"], [MODEL], tmp_path, announce=lambda _: None
        )
    assert not certificate.parties
    assert certificate.absent["pytorch"] == f"invalid: {reported}"
    assert not certificate.holds
    assert f"not checked: invalid: {reported}" in render_certificate(certificate)
