"""Which Python makes an environment: shims, venvs and versions that do not fit."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trainmark.environment import FrameworkEntry
from trainmark.environment.interpreter import choose, probe
from trainmark.errors import InputError

HERE = ".".join(str(part) for part in sys.version_info[:2])


def stub_python(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_in_a_venv_its_base_python_is_chosen(tiny: FrameworkEntry) -> None:
    found = choose(tiny.model_copy(update={"python": (HERE,)}), None)
    assert found.version.startswith(HERE)
    assert Path(sys.prefix) not in found.path.parents or sys.prefix == sys.base_prefix


def test_a_shim_without_a_version_is_skipped(
    tiny: FrameworkEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, whole = tmp_path / "shims", tmp_path / "real"
    broken.mkdir()
    whole.mkdir()
    stub_python(broken / f"python{HERE}", "echo 'pyenv: command not found' >&2; exit 127")
    stub_python(whole / f"python{HERE}", f'exec "{sys.executable}" "$@"')
    monkeypatch.setenv("PATH", f"{broken}:{whole}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(broken / f"python{HERE}"))
    found = choose(tiny.model_copy(update={"python": (HERE,)}), None)
    assert found.version.startswith(HERE)


def test_a_python_that_does_not_fit_is_named_with_what_fits(tiny: FrameworkEntry) -> None:
    entry = tiny.model_copy(update={"python": ("3.99",)})
    with pytest.raises(InputError, match=rf"Python {HERE}.* does not fit .* \(it fits: 3.99\)"):
        choose(entry, Path(sys.executable))
    with pytest.raises(InputError, match=r"no Python found that fits .*--python"):
        choose(entry, None)


def test_a_program_other_than_python_is_an_input_error(tiny: FrameworkEntry, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not run as a Python"):
        choose(tiny, tmp_path / "python")
    assert probe("/bin/true") is None


def test_a_python_without_ensurepip_says_what_to_install(tiny: FrameworkEntry, tmp_path: Path) -> None:
    found = probe(sys.executable)
    assert found is not None
    answer = f'{{"version": "{found.version}", "base": "/usr/bin/python3", "has_venv": false}}'
    python = stub_python(tmp_path / "python3", f"echo '{answer}'")
    assert probe(python) == replace(found, path=Path("/usr/bin/python3"), has_venv=False)
    with pytest.raises(InputError, match="python3-venv"):
        choose(tiny.model_copy(update={"python": (HERE,)}), python)
