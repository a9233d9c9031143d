"""Encode and decode ``tf.train.Example``, the usual content of TFRecord files, without TensorFlow.

The messages are those of tensorflow/core/example/{example,feature}.proto, with field numbers in parentheses: an Example
contains Features (1) with one map entry (1) per feature: its key (1) and a Feature (2), which is a BytesList (1), a
FloatList (2) or an Int64List (3) of values (1). Wire format: https://protobuf.dev/programming-guides/encoding/.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

Value = bytes | int

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3
_MAX_VARINT = 10
"""Bytes of the longest varint (a negative number)."""


def encode_example(features: Mapping[str, Value]) -> bytes:
    """Return an Example with one value per feature; keys are sorted, so equal features give equal bytes."""
    entries = b"".join(
        _field(1, _field(1, key.encode()) + _field(2, _feature(features[key]))) for key in sorted(features)
    )
    return _field(1, entries)


def decode_example(data: bytes) -> dict[str, Value | None]:
    """Return the first value of each feature (None for an empty list or a float list).

    Raises ``ValueError`` if the data is not an Example.
    """
    found: dict[str, Value | None] = {}
    for features in _values(data, 1):
        for entry in _values(features, 1):
            key = next(_values(entry, 1), b"").decode("utf-8")
            found[key] = _first_value(next(_values(entry, 2), b""))
    return found


def encode_lists(features: Mapping[str, Sequence[int] | Sequence[float]]) -> bytes:
    """Return an Example of packed lists (as in proto3): floats if the first value is a float, else integers."""
    return encode_features(encode_feature(key, features[key]) for key in sorted(features))


def encode_feature(key: str, values: Sequence[int] | Sequence[float]) -> bytes:
    """Return one encoded feature of an Example, as ``features_of`` yields it."""
    return _field(1, key.encode()) + _field(2, _list(values))


def encode_features(features: Iterable[bytes]) -> bytes:
    """Return the Example of encoded features."""
    return _field(1, b"".join(_field(1, feature) for feature in features))


def decode_lists(data: bytes) -> dict[str, list[int] | list[float]]:
    """Return the values of each Int64List or FloatList; raise ``ValueError`` if the data is not an Example."""
    decoded = (decode_feature(feature) for feature in features_of(data))
    return {key: values for key, values in decoded if values is not None}


def features_of(data: bytes) -> Iterator[bytes]:
    """Yield the encoded features of an Example; raise ``ValueError`` if the data is not an Example."""
    for features in _values(data, 1):
        yield from _values(features, 1)


def decode_feature(feature: bytes) -> tuple[str, list[int] | list[float] | None]:
    """Return a feature's key and its values, None unless it is an Int64List or a FloatList."""
    key = next(_values(feature, 1), b"").decode("utf-8")
    values: list[int] | list[float] | None = None
    for number, content in _fields(next(_values(feature, 2), b"")):
        if isinstance(content, bytes) and number in (_FLOAT_LIST, _INT64_LIST):
            values = _floats(content) if number == _FLOAT_LIST else _integers(content)
    return key, values


def _list(values: Sequence[int] | Sequence[float]) -> bytes:
    if values and isinstance(values[0], float):
        return _field(_FLOAT_LIST, _field(1, struct.pack(f"<{len(values)}f", *values)))
    packed = b"".join(_varint(int(value) & (2**64 - 1)) for value in values)
    return _field(_INT64_LIST, _field(1, packed))


def _floats(content: bytes) -> list[float]:
    packed = b"".join(value for _, value in _fields(content) if isinstance(value, bytes))
    if len(packed) % 4:
        raise ValueError("a list of floats is cut off")
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


def _integers(content: bytes) -> list[int]:
    found: list[int] = []
    for _, value in _fields(content):
        if not isinstance(value, bytes):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            integer, at = _read_varint(value, at)
            found.append(integer - 2**64 if integer >= 2**63 else integer)
    return found


def _feature(value: Value) -> bytes:
    if isinstance(value, bytes):
        return _field(_BYTES_LIST, _field(1, value))
    return _field(_INT64_LIST, _field(1, _varint(value & (2**64 - 1))))


def _first_value(feature: bytes) -> Value | None:
    for number, content in _fields(feature):
        if number == _BYTES_LIST and isinstance(content, bytes):
            return next(_values(content, 1), None)
        if number == _INT64_LIST and isinstance(content, bytes):
            return _first_integer(content)
    return None


def _first_integer(content: bytes) -> int | None:
    for number, value in _fields(content):
        if number == 1:
            # Packed as proto3 writes it, or a single varint, which readers must accept too.
            integer = _read_varint(value, 0)[0] if isinstance(value, bytes) else value
            return integer - 2**64 if integer >= 2**63 else integer
    return None


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _values(message: bytes, number: int) -> Iterator[bytes]:
    for found, content in _fields(message):
        if found == number and isinstance(content, bytes):
            yield content


def _fields(message: bytes) -> Iterator[tuple[int, Value]]:
    at, end = 0, len(message)
    while at < end:
        tag, at = (message[at], at + 1) if message[at] < 0x80 else _read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        if kind == _LENGTH:
            one = at < end and message[at] < 0x80
            size, at = (message[at], at + 1) if one else _read_varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {at}")
        if at + size > end:
            raise ValueError(f"a field of {size} bytes at byte {at} is cut off")
        yield number, message[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(data[at : at + _MAX_VARINT]):
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return value, at + position + 1
    raise ValueError(f"no integer at byte {at}")
