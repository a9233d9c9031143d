"""The catalogue that ships: every entry is whole."""

import re
from pathlib import Path

import pytest

from trainmark.environment.entry import INSIDE, Entry, entries, find_entry, lock_of
from trainmark.environment.lock import canonical
from trainmark.errors import InputError


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: str(entry.framework))
def test_every_framework_has_a_smoke_test_and_a_lock_for_each_variant_with_all_it_asks_for(
    entry: Entry,
) -> None:
    assert (INSIDE / entry.smoke).is_file()
    assert entry.import_name in entry.imports
    assert {"version", "cuda", "cudnn", "nccl"} >= set(entry.versions) >= {"version"}
    for variant, wanted in entry.variants.items():
        pins = {pin.name: pin for pin in lock_of(entry, variant).pins}
        for requirement in wanted.requirements:
            name, *version = re.split(r"===?", requirement)
            assert canonical(name) in pins
            assert not version or pins[canonical(name)].version == version[0]


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(InputError, match="no environment 'pytroch'; did you mean 'pytorch'"):
        find_entry("pytroch")


def test_a_name_is_never_a_path_out_of_the_catalogue() -> None:
    with pytest.raises(InputError):
        find_entry("../catalog/pytorch")


def test_an_unknown_key_in_an_entry_is_named(catalog: Path) -> None:
    path = catalog / "tinyframework.yaml"
    path.write_text(path.read_text() + "smokes: x\n")
    with pytest.raises(InputError, match=r"tinyframework\.yaml: smokes: "):
        find_entry("tinyframework", catalog)


def test_a_variant_that_a_framework_lacks_is_an_input_error(tiny: Entry) -> None:
    from trainmark.environment import Variant

    with pytest.raises(InputError, match="has no variant 'cuda'"):
        lock_of(tiny, Variant.CUDA)
