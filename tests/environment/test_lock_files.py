"""Lock files: exact pins, and a digest of nothing but them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.environment.lock import Lock, Pin, canonical, read_lock, render_lock
from trainmark.errors import InputError

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,5})?", fullmatch=True)
VERSIONS = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}", fullmatch=True)
PINS = st.dictionaries(NAMES, st.tuples(VERSIONS, st.sampled_from(["==", "==="])), min_size=1, max_size=8)


@given(pins=PINS)
def test_a_rendered_lock_reads_back_as_itself(
    tmp_path_factory: pytest.TempPathFactory, pins: dict[str, tuple[str, str]]
) -> None:
    written = [Pin(name, version, sign) for name, (version, sign) in pins.items()]
    path = tmp_path_factory.mktemp("lock") / "a.lock"
    path.write_text(render_lock(written, heading=["made by hand"]))
    assert set(read_lock(path).pins) == set(written)


def test_the_digest_ignores_comments_order_and_spelling_but_not_versions(tmp_path: Path) -> None:
    one, same, other = tmp_path / "1", tmp_path / "2", tmp_path / "3"
    one.write_text("Typing_Extensions==4.16.0\ntorch==2.13.0\n")
    same.write_text("# a comment\ntorch==2.13.0  # the framework\n\ntyping-extensions==4.16.0\n")
    other.write_text("typing-extensions==4.16.0\ntorch==2.13.1\n")
    assert read_lock(one).digest() == read_lock(same).digest()
    assert read_lock(one).digest() != read_lock(other).digest()


def test_a_wheel_in_place_of_a_pin_changes_the_digest() -> None:
    lock = Lock(Path("x"), (Pin("numpy", "2.4.6"), Pin("torch", "2.13.0")))
    assert lock.digest({"torch": "ab"}) != lock.digest()
    assert lock.digest({"torch": "ab"}) == lock.without(["Torch"]).digest({"torch": "ab"})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("torch>=2.13\n", "1: 'torch>=2.13' is not an exact pin"),
        ("torch==2.13.0\nnumpy\n", "2: 'numpy' is not an exact pin"),
        ("torch==2.13.*\n", "1: 'torch==2.13.*' is not an exact pin"),
        ("--index-url https://x\n", "1: '--index-url https://x' is not an exact pin"),
        ("PyYAML==6.0\npyyaml==6.0\n", "2: 'pyyaml' is pinned twice"),
        ("# nothing\n", "the lock pins no package"),
    ],
)
def test_a_line_that_is_no_pin_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "bad.lock"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_lock(path)
    assert complaint in str(error.value)
    assert str(path) in str(error.value)


def test_a_plain_pin_accepts_a_local_version_and_an_arbitrary_one_does_not() -> None:
    assert Pin("torch", "2.13.0").accepts("2.13.0+cpu")
    assert not Pin("torch", "2.13.0").accepts("2.13.1")
    assert not Pin("torch", "2.13.0", "===").accepts("2.13.0+cpu")
    assert not Pin("torch", "2.13.0+cu130").accepts("2.13.0+cpu")


def test_names_have_one_spelling() -> None:
    assert canonical("Typing_Extensions") == canonical("typing.extensions") == "typing-extensions"
