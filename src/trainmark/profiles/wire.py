"""The wire format of protocol buffers: numbered fields, whose numbers never change, without a schema's classes."""

from collections.abc import Iterator

Value = int | bytes


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field: a number, or bytes; raise ``ValueError`` if it is cut."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        match key & 7:
            case 0:
                value, at = _number(message, at)
                yield key >> 3, value
            case 2:
                length, at = _number(message, at)
                if at + length > len(message):
                    raise ValueError("it ends within a field")
                yield key >> 3, message[at : at + length]
                at += length
            case 1:
                at += 8
            case 5:
                at += 4
            case other:
                raise ValueError(f"a field has the unknown type {other}")


def numbers(packed: Value) -> list[int]:
    """Return the numbers of a repeated field, packed or one by one."""
    if isinstance(packed, int):
        return [packed]
    found, at = [], 0
    while at < len(packed):
        number, at = _number(packed, at)
        found.append(number)
    return found


def message_of(value: Value) -> bytes:
    """Return a field that is a message or a text; raise ``ValueError`` for a number."""
    if isinstance(value, int):
        raise ValueError("a field is a number, not a message")
    return value


def text_of(value: Value) -> str:
    """Return a field that is a text."""
    return message_of(value).decode("utf-8", errors="replace")


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Return the number of variable length at a position, and the position after it."""
    value = shift = 0
    while True:
        if at >= len(message):
            raise ValueError("it ends within a number")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
