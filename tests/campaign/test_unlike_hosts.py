"""Hosts of one case that have not the same environment are refused by name: their figure would be that of neither."""

import pytest

from trainmark.campaign.run_environment import other_environment
from trainmark.node import LocalHost
from trainmark.schema.manifest import FrameworkVersions, Node

HERE = LocalHost().facts(None, None, None)


def has(version: str | None = "2.13.0", python: str = "3.11.7", lock: str | None = "sha256:1") -> Node:
    versions = FrameworkVersions(framework="pytorch", version=version, python=python)
    return HERE.model_copy(update={"framework": versions, "environment_lock": lock})


@pytest.mark.parametrize(
    ("nodes", "reported"),
    [
        ([has(), has(), has()], None),
        ([has(), HERE, has(version=None, lock=None)], None),
        ([has(), has("2.12.0")], "b: has pytorch 2.12.0, but a has pytorch 2.13.0; "),
        ([has("2.12.0"), has(), has()], "a: has pytorch 2.12.0, but b has pytorch 2.13.0; "),
        ([has(), has(), has(python="3.12.1")], "c: has Python 3.12.1, but a has Python 3.11.7; "),
        ([has(), has(lock="sha256:2")], "b: has the environment of lock sha256:2, but a has "),
    ],
)
def test_the_host_whose_environment_is_not_the_others_is_named(
    nodes: list[Node], reported: str | None
) -> None:
    found = other_environment(("a", "b", "c")[: len(nodes)], nodes)
    assert found is None if reported is None else (found or "").startswith(reported)
