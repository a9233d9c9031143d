"""The catalogue that ships: every entry is whole."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from trainmark.environment.entry import FrameworkEntry, entries, find_entry, lock_of
from trainmark.environment.lock import canonical
from trainmark.errors import InputError


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: str(entry.framework))
def test_every_framework_has_a_smoke_test_and_each_lock_satisfies_its_requirements(
    entry: FrameworkEntry,
) -> None:
    assert entry.smoke.is_file()
    assert entry.import_name in entry.imports
    assert {"version", "cuda", "cudnn", "nccl"} >= set(entry.versions) >= {"version"}
    for variant, wanted in entry.variants.items():
        pins = {pin.name: pin for pin in lock_of(entry, variant).pins}
        for requirement in map(Requirement, wanted.requirements):
            version = pins[canonical(requirement.name)].version
            assert requirement.specifier.contains(version, prereleases=True), f"{requirement}: {version}"


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: str(entry.framework))
def test_the_pins_of_an_extra_contradict_no_lock(entry: FrameworkEntry) -> None:
    for variant in entry.variants:
        pins = {pin.name: pin for pin in lock_of(entry, variant).pins}
        for extra in entry.extras.values():
            for pin in extra.pins:
                assert pins.get(pin.name, pin).version == pin.version


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: str(entry.framework))
def test_all_builds_of_a_framework_are_of_one_version(entry: FrameworkEntry) -> None:
    first = [Requirement(wanted.requirements[0]) for wanted in entry.variants.values()]
    assert all(requirement.name.startswith(first[0].name.removesuffix("-cpu")) for requirement in first)
    assert len({str(requirement.specifier).replace("===", "==") for requirement in first}) == 1


def test_a_placeholder_is_in_no_lock() -> None:
    for entry in entries():
        if entry.placeholder is not None:
            for variant in entry.variants:
                names = {pin.name for pin in lock_of(entry, variant).pins}
                assert canonical(entry.placeholder.package) not in names


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(InputError, match="no environment 'pytroch'; did you mean 'pytorch'"):
        find_entry("pytroch")


def test_a_name_is_never_a_path_out_of_the_catalogue() -> None:
    with pytest.raises(InputError):
        find_entry("../frameworks/pytorch")


def test_an_unknown_key_in_an_entry_is_named(catalog: Path) -> None:
    path = catalog / "tinyframework" / "environment.yaml"
    path.write_text(path.read_text() + "smokes: x\n")
    with pytest.raises(InputError, match=r"environment\.yaml: smokes: "):
        find_entry("tinyframework", catalog)


def test_a_variant_that_a_framework_lacks_is_an_input_error(tiny: FrameworkEntry) -> None:
    from trainmark.environment import Variant

    with pytest.raises(InputError, match="has no variant 'cuda'"):
        lock_of(tiny, Variant.CUDA)
