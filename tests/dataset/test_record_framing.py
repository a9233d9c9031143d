"""TFRecord and RecordIO framing and tf.train.Example: what is written is read back, and damage is noticed."""

import contextlib
import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.dataset import example, tfrecord
from trainmark.dataset.images import recordio

MAGIC = struct.pack("<I", recordio.MAGIC)
PAYLOADS = st.lists(st.binary(max_size=200), max_size=6)
WITH_MAGIC = st.lists(st.one_of(st.just(MAGIC), st.binary(max_size=9)), max_size=12).map(b"".join)
FEATURES = st.dictionaries(
    st.text(max_size=12), st.one_of(st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1)), max_size=6
)


def read_tfrecord(content: bytes) -> list[tfrecord.Record]:
    return list(tfrecord.read_records(io.BytesIO(content), len(content)))


def read_recordio(content: bytes) -> list[recordio.Record]:
    return list(recordio.read_records(io.BytesIO(content), len(content)))


def test_the_checksum_is_crc32c_of_rfc_3720_masked() -> None:
    """The RFC's appendix B.4 gives aa 36 91 8a for 32 zeros, as sent, and the mask is that of crc32c.h."""
    crc = 0x8A9136AA
    assert tfrecord.masked_crc(bytes(32)) == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32


@given(PAYLOADS)
def test_tfrecords_are_read_back_with_their_offsets(payloads: list[bytes]) -> None:
    frames = [tfrecord.frame(payload) for payload in payloads]
    records = read_tfrecord(b"".join(frames))
    assert [record.data for record in records] == payloads
    assert [record.size for record in records] == [len(frame) for frame in frames]
    assert [record.offset for record in records] == [sum(map(len, frames[:n])) for n in range(len(frames))]
    assert not any(record.broken for record in records)


@given(PAYLOADS.filter(bool), st.data())
def test_every_modified_byte_of_a_tfrecord_is_detected(payloads: list[bytes], data: st.DataObject) -> None:
    content = bytearray(b"".join(tfrecord.frame(payload) for payload in payloads))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    assert any(record.broken for record in read_tfrecord(bytes(content)))


@given(PAYLOADS.filter(bool), st.data())
def test_a_truncated_tfrecord_is_detected(payloads: list[bytes], data: st.DataObject) -> None:
    frames = [tfrecord.frame(payload) for payload in payloads]
    ends = [sum(map(len, frames[:n])) for n in range(len(frames) + 1)]
    length = data.draw(st.integers(1, ends[-1] - 1).filter(lambda n: n not in ends))
    records = read_tfrecord(b"".join(frames)[:length])
    assert records[-1].broken is tfrecord.FramingFault.TRUNCATED
    assert [record.data for record in records[:-1]] == payloads[: len(records) - 1]


@given(st.lists(WITH_MAGIC, max_size=5))
def test_recordio_is_read_back_even_with_the_magic_number_in_its_data(payloads: list[bytes]) -> None:
    frames = [recordio.frame(payload) for payload in payloads]
    content = b"".join(frames)
    records = read_recordio(content)
    assert [record.data for record in records] == payloads
    assert [record.offset for record in records] == [sum(map(len, frames[:n])) for n in range(len(frames))]
    assert all(len(frame) % 4 == 0 for frame in frames)


@given(st.lists(WITH_MAGIC, min_size=1, max_size=4))
def test_the_magic_number_occurs_only_at_the_start_of_a_part(payloads: list[bytes]) -> None:
    """That is what lets a reader that starts in the middle of a file find the next record."""
    content = b"".join(recordio.frame(payload) for payload in payloads)
    begins, at = set(), 0
    while at < len(content):
        begins.add(at)
        length = struct.unpack_from("<I", content, at + 4)[0] & (2**29 - 1)
        at += 8 + length + -length % 4
    assert {n for n in range(0, len(content), 4) if content[n : n + 4] == MAGIC} == begins


def test_a_record_with_the_magic_number_has_the_bytes_that_dmlc_writes() -> None:
    """By hand from dmlc-core's src/recordio.cc: parts first (1), middle (2), last (3), the number itself left out."""
    assert recordio.frame(b"abcd" + MAGIC + MAGIC + b"ef") == b"".join(
        (
            MAGIC + struct.pack("<I", 1 << 29 | 4) + b"abcd",
            MAGIC + struct.pack("<I", 2 << 29 | 0),
            MAGIC + struct.pack("<I", 3 << 29 | 2) + b"ef\0\0",
        )
    )
    assert recordio.frame(b"a" + MAGIC) == MAGIC + struct.pack("<I", 5) + b"a" + MAGIC + bytes(3)


@given(st.lists(WITH_MAGIC, min_size=1, max_size=4), st.data())
def test_a_truncated_recordio_file_is_detected(payloads: list[bytes], data: st.DataObject) -> None:
    frames = [recordio.frame(payload) for payload in payloads]
    ends = [sum(map(len, frames[:n])) for n in range(len(frames) + 1)]
    length = data.draw(st.integers(1, ends[-1] - 1).filter(lambda n: n not in ends))
    records = read_recordio(b"".join(frames)[:length])
    assert records[-1].broken is recordio.FramingFault.TRUNCATED
    assert [record.data for record in records[:-1]] == payloads[: len(records) - 1]


def test_parts_in_the_wrong_order_are_broken() -> None:
    whole = recordio.frame(b"whole")
    first, last = (MAGIC + struct.pack("<I", part << 29 | 4) + b"part" for part in (1, 3))
    assert read_recordio(whole + last)[-1].broken is recordio.FramingFault.ORDER
    assert read_recordio(first + whole)[-1].broken is recordio.FramingFault.ORDER
    assert read_recordio(first + last)[-1].data == b"part" + MAGIC + b"part"


@given(st.binary(max_size=100))
def test_reading_garbage_ends_with_a_broken_record(garbage: bytes) -> None:
    for records in (read_tfrecord(garbage), read_recordio(garbage)):
        assert not garbage or records[-1].broken or sum(len(record.data) for record in records) < len(garbage)


@given(st.integers(0, 2**24), st.integers(0, 2**63), st.binary(max_size=50))
def test_the_header_of_a_record_is_read_back(label: int, identity: int, picture: bytes) -> None:
    held = recordio.unpack(recordio.pack(label, identity, picture))
    assert (held.label, held.identity, held.picture) == (label, identity, picture)


def test_of_several_labels_the_first_is_read() -> None:
    data = struct.pack("<IfQQ3f", 3, 0.0, 8, 0, 5.0, 6.0, 7.0) + b"picture"
    assert recordio.unpack(data) == recordio.Labelled(5.0, 8, b"picture")
    with pytest.raises(ValueError, match="announces 9 labels"):
        recordio.unpack(struct.pack("<IfQQ", 9, 0.0, 8, 0))


@given(FEATURES)
def test_an_example_is_read_back(features: dict[str, bytes | int]) -> None:
    assert example.decode_example(example.encode_example(features)) == features


def test_unpacked_integers_and_floats_of_other_writers_are_read() -> None:
    unpacked = b"\x1a\x03\x08\xac\x02"  # int64_list { value: 300 }, one field a value
    floats = b"\x12\x06\x0a\x04\x00\x00\x80\x3f"  # float_list { value: 1.0 }
    entries = b"".join(
        b"\x0a" + bytes([len(key) + len(value) + 4]) + b"\x0a" + bytes([len(key)]) + key
        + b"\x12" + bytes([len(value)]) + value
        for key, value in ((b"n", unpacked), (b"f", floats))
    )  # fmt: skip
    message = b"\x0a" + bytes([len(entries)]) + entries
    assert example.decode_example(message) == {"n": 300, "f": None}


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_a_value_error_or_an_empty_example(garbage: bytes) -> None:
    with contextlib.suppress(ValueError):
        example.decode_example(garbage)
