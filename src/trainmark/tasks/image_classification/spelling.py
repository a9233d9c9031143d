"""Normalisation of network names, such as the many spellings of ResNet-50."""

import re

_RESNET = re.compile(r"resnet[-_ ]?(\d+)[-_ ]?(?:v(1(?:\.5)?|15|2))?")
_RESNET_VERSION_FIRST = re.compile(r"resnetv(15?|2)[-_](\d+)")
_MOBILENET = re.compile(r"mobilenet[-_ ]?(?:v?(\d)(?:\.0)?)")


def model_word(name: str) -> str | None:
    """Return trainmark's word for a model: ``resnetv15-50`` and ``ResNet50V1.5`` are ``resnet50_v1.5``.

    A version that is missing in the name is left out (``ResNet50`` is ``resnet50``). The result is None for an unknown
    family.
    """
    plain = name.strip().lower()
    if match := _RESNET_VERSION_FIRST.fullmatch(plain):
        return f"resnet{match[2]}_v{_version(match[1])}"
    if match := _RESNET.fullmatch(plain):
        return f"resnet{match[1]}" + (f"_v{_version(match[2])}" if match[2] else "")
    if match := _MOBILENET.fullmatch(plain):
        return f"mobilenet_v{match[1]}"
    return None


def _version(word: str) -> str:
    return "1.5" if word == "15" else word
