"""What a suite's paths are relative to."""

from pathlib import Path

import pytest

from trainmark.suite import load_suite


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("envs/mine/bin/python", "{}/envs/mine/bin/python"),
        ("/opt/python", "/opt/python"),
        ("system", "system"),
        ("auto", "auto"),
    ],
)
def test_an_interpreters_path_counts_from_the_suites_file(tmp_path: Path, text: str, meant: str) -> None:
    suite = load_suite(written(tmp_path, f"name: x\nenvironment: {text}\naxes: {{precision: [fp32]}}\n"))
    assert suite.environment == meant.format(tmp_path)
    by_framework = f"name: x\nenvironment: {{pytorch: {text}}}\naxes: {{framework: [jax, pytorch]}}\n"
    suite = load_suite(written(tmp_path, by_framework))
    assert suite.environment_of("pytorch") == meant.format(tmp_path)
    assert suite.environment_of("jax") == "auto"
