"""Where the tests find the frameworks' environments."""

import json
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal

import pytest

INSTALLABLE = {
    "pytorch": "dali",
    "tensorflow": "",
    "mxnet": "horovod",
    "paddle": "",
    "jax": "",
    "mindspore": "",
}
"""The frameworks whose wheels are on an index, and the extra that tests of each want."""


def framework_python(framework: str) -> str:
    """Return the Python of a framework's environment, or nothing where it is not there.

    TRAINMARK_TEST_ENVS names the folder of the environments (``$TRAINMARK_HOME/envs``).
    """
    python = Path(os.environ.get("TRAINMARK_TEST_ENVS", "/nonexistent")) / framework / "bin" / "python"
    return str(python) if python.exists() else ""


def needs_framework(framework: str) -> pytest.MarkDecorator:
    """Return the mark of tests that start processes in a framework's environment."""
    return pytest.mark.skipif(
        not framework_python(framework),
        reason=f"TRAINMARK_TEST_ENVS has no environment '{framework}' (trainmark env create {framework})",
    )


def require_bf16(framework: str, layout: str | None = None) -> None:
    """Skip a test that computes in BF16 where the framework cannot: oneDNN's BF16 needs AVX-512.

    MXNet computes it through oneDNN always, TensorFlow only in the layout ``nchw``.
    """
    through_onednn = framework == "mxnet" or (framework == "tensorflow" and layout == "nchw")
    if through_onednn and "avx512bw" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip(f"{framework} computes BF16 through oneDNN, which needs a CPU with AVX-512 for it")


def in_frameworks(*frameworks: str, rarely: bool = False) -> list[pytest.MarkDecorator]:
    """Return the marks of a test that starts processes of these frameworks, in the group of the last one's tests.

    One that takes long for what seldom breaks is asked ``rarely``.
    """
    group = pytest.mark.xdist_group(f"worker-{frameworks[-1]}")
    return [*map(needs_framework, frameworks), group, *([pytest.mark.rare] if rarely else [])]


def of_each(
    frameworks: Iterable[str],
    scope: Literal["module"] | None = None,
    marks: Sequence[pytest.MarkDecorator] = (),
    rarely: Collection[str] = (),
) -> pytest.MarkDecorator:
    """Return the mark of a test that is asked of each of these frameworks, its parameter ``framework``.

    Those in ``rarely``, because they take long for it, are asked by the rare tests.
    """
    each = [
        pytest.param(name, marks=[*in_frameworks(name, rarely=name in rarely), *marks]) for name in frameworks
    ]
    return pytest.mark.parametrize("framework", each, scope=scope)


def in_framework(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the mark of a test that starts processes of one framework, in the group of its tests."""

    def marked(test: Callable[..., None]) -> Callable[..., None]:
        for mark in in_frameworks(name):
            test = mark(test)
        return test

    return marked


in_pytorch = in_framework("pytorch")
"""The mark of a test that starts processes of PyTorch alone."""


def has_extra(framework: str, extra: str) -> bool:
    """Tell whether a framework's environment is there and was made with the extra."""
    python = framework_python(framework)
    return (
        bool(python)
        and extra in json.loads((Path(python).parents[1] / "environment.json").read_text())["extras"]
    )


def needs_extra(framework: str, extra: str) -> pytest.MarkDecorator:
    """Return the mark of tests that start processes in an environment with this extra."""
    return pytest.mark.skipif(
        not has_extra(framework, extra),
        reason=f"TRAINMARK_TEST_ENVS has no environment '{framework}' with '{extra}' "
        f"(trainmark env create {framework} --extra {extra})",
    )


def what_is_required_and_missing() -> str | None:
    """Return, in one line, what TRAINMARK_REQUIRE_ENVS=1 wants and is not there, and what to do; None without any."""
    if os.environ.get("TRAINMARK_REQUIRE_ENVS", "0") in ("", "0"):
        return None
    missing = [
        f"trainmark env create {name}" + (f" --extra {extra}" if extra else "")
        for name, extra in INSTALLABLE.items()
        if not framework_python(name) or (extra and not has_extra(name, extra))
    ]
    place = os.environ.get("TRAINMARK_TEST_ENVS", "(not set)")
    return (
        f"TRAINMARK_TEST_ENVS={place} lacks what TRAINMARK_REQUIRE_ENVS wants: {'; '.join(missing)}"
        if missing
        else None
    )
