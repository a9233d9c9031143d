"""Device names in logs, and whether a device may use TF32 for "fp32"."""

import re
from collections.abc import Iterable
from itertools import combinations

_NAMES = re.compile(
    rb"\b((?:Tesla|NVIDIA|GeForce|Quadro) [A-Z][\w-]*(?: \d[\w-]*)?(?:-\w+)*|[VAHP]\d{2,3}-(?:SXM|PCIE)\w*(?:-\w+)*)"
)
_WORDS = (b"Tesla", b"NVIDIA", b"GeForce", b"Quadro", b"-SXM", b"-PCIE")
"""Words of which each name has one: searching them is twenty times faster than searching the names."""
_MAKERS = frozenset({"nvidia", "tesla", "geforce", "quadro"})
_CAPABILITY_WORDS = "compute capability"
_CAPABILITY = re.compile(rb"Compute Capability: (\d+)\.\d")
_AMPERE_OR_LATER = re.compile(
    r"\b(?:A\d{1,3}|H\d{2,3}|B\d{2,3}|GB\d{3}|L\d{1,2}S?|RTX [3-6]0|RTX A\d)|capability ([89]|\d\d)"
)
_BEFORE_AMPERE = re.compile(r"\b(?:V100|P\d{1,3}|K\d{2}|T4|M\d{2}|GTX|TITAN|RTX 20)|capability [3-7]\b")


def read_hardware(text: bytes) -> str | None:
    """Return the device's name as printed in ``text``, or its compute capability, or ``None``."""
    named = any(word in text for word in _WORDS)
    for name in _NAMES.findall(text) if named else []:
        word = name.decode("ascii", "replace")
        if _AMPERE_OR_LATER.search(word) or _BEFORE_AMPERE.search(word):
            return str(word)
    capability = _CAPABILITY.search(text)
    return f"{_CAPABILITY_WORDS} {int(capability[1])}" if capability else None


def same_device(names: Iterable[str]) -> bool:
    """Return whether all ``names`` can denote one kind of device, by their words without the vendor's.

    A short name (``V100``) matches each name that has its words, and a compute capability each of its generation.
    """
    return all(_alike(*pair) for pair in combinations(dict.fromkeys(names), 2))


def _alike(one: str, other: str) -> bool:
    if one.startswith(_CAPABILITY_WORDS) != other.startswith(_CAPABILITY_WORDS):
        return None in (generations := {has_tf32(one), has_tf32(other)}) or len(generations) == 1
    words, others = (set(re.split(r"[\s-]+", name.lower())) - _MAKERS for name in (one, other))
    return words <= others or others <= words


def has_tf32(hardware: str | None) -> bool | None:
    """Return whether the device can compute in TF32 (NVIDIA Ampere and later); ``None`` if unknown."""
    if hardware is None:
        return None
    if _AMPERE_OR_LATER.search(hardware):
        return True
    return False if _BEFORE_AMPERE.search(hardware) else None
