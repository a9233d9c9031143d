"""Clicks: made from a seed, gone on with after an interruption, and what verification and a worker find in them."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.dataset import ProblemKind, clicks
from trainmark.dataset.clicks import conversion, verification
from trainmark.dataset.clicks.examples import decode_sample, decode_samples, encode_sample
from trainmark.dataset.clicks.manifest import ClickManifest
from trainmark.dataset.example import (
    decode_lists,
    encode_feature,
    encode_features,
    encode_lists,
    features_of,
)
from trainmark.dataset.manifest import format_sums, sha256, sha256_of_file, write_manifest
from trainmark.dataset.tfrecord import frame, read_records
from trainmark.errors import InputError
from trainmark.tasks.recommendation.axes import Form
from trainmark.worker.core.outcomes import RunError
from trainmark.worker.core.place import place_from
from trainmark.worker.tasks.recommendation.records import (
    COLUMNS,
    PUBLISHED_SIZES,
    ClickFile,
    Columns,
    column_sizes,
    offsets,
)

SPEC = clicks.ClickSpec(samples=500, vocabulary=1000, seed=3)
RECORD = 160


def made(folder: Path, spec: clicks.ClickSpec = SPEC) -> Path:
    clicks.make_clicks(folder, spec)
    return folder


def found(folder: Path) -> list[tuple[str, ProblemKind]]:
    return [(problem.path, problem.kind) for problem in clicks.verify(folder).problems]


def words(folder: Path) -> np.ndarray:
    return np.fromfile(folder / "train.bin", "<u4").reshape(-1, 40)


def set_word(folder: Path, sample: int, column: int, word: int) -> None:
    spoiled = words(folder)
    spoiled[sample, column] = word
    spoiled.tofile(folder / "train.bin")


def without_column(folder: Path, name: str) -> None:
    manifest = json.loads((folder / "dataset.json").read_text())
    manifest["columns"].remove(name)
    (folder / "dataset.json").write_text(json.dumps(manifest))


def test_fields_share_a_vocabulary_in_the_published_proportions() -> None:
    assert column_sizes(sum(PUBLISHED_SIZES)) == list(PUBLISHED_SIZES)
    for vocabulary in (26, 27, 1000, 2_322_444):
        sizes = column_sizes(vocabulary)
        assert (sum(sizes), min(sizes) >= 1, len(sizes)) == (vocabulary, True, 26)


def test_few_categories_of_a_field_are_frequent(tmp_path: Path) -> None:
    spec = clicks.ClickSpec(samples=50_000, vocabulary=100_000, seed=0)
    largest = int(np.argmax(column_sizes(spec.vocabulary)))
    counts = np.bincount(words(made(tmp_path / "c", spec))[:, 14 + largest])
    assert counts[0] / counts[9] == pytest.approx(np.log(2) / np.log(11 / 10), rel=0.15)
    assert 0.24 < words(tmp_path / "c")[:, 0].mean() < 0.26


def test_verification_finds_truncated_empty_missing_and_modified_files(tmp_path: Path) -> None:
    folder = made(tmp_path / "clicks")
    train = folder / "train.bin"
    data = train.read_bytes()
    for cut in (data[:-3], data[:-RECORD], b""):
        train.write_bytes(cut)
        assert ("train.bin", ProblemKind.TRUNCATED) in found(folder)
    train.unlink()
    assert found(folder) == [("train.bin", ProblemKind.MISSING)]
    train.write_bytes(data[:4] + b"\x01" + data[5:])
    assert found(folder) == [("train.bin", ProblemKind.CORRUPTED)]


IMPOSSIBLE = pytest.mark.parametrize(
    ("column", "word", "message"),
    [
        (0, 7, "sample 7 has label 7, not 0 or 1"),
        (3, 0x7F800000, "sample 7 has inf in I3, which is not a number"),
        (16, 10**6, "sample 7 has category 1000000 in C3, which has "),
    ],
    ids=["label", "dense", "category"],
)


@IMPOSSIBLE
def test_verification_names_invalid_values_of_a_sample(
    tmp_path: Path, column: int, word: int, message: str
) -> None:
    folder = made(tmp_path / "clicks")
    set_word(folder, 7, column, word)
    (problem,) = [one for one in clicks.verify(folder).problems if one.kind is ProblemKind.BROKEN]
    assert problem.detail.startswith(message)


def test_a_missing_column_is_reported_without_reading(tmp_path: Path) -> None:
    folder = made(tmp_path / "clicks")
    without_column(folder, "C14")
    (problem,) = clicks.verify(folder).problems
    assert (problem.kind, problem.detail) == (ProblemKind.MISSING, "has no column C14")
    with pytest.raises(RunError, match="has no column C14"):
        ClickFile(str(folder), 1000)


def test_a_manifest_with_too_few_fields_is_reported_in_one_line(tmp_path: Path) -> None:
    folder = made(tmp_path / "clicks")
    manifest = json.loads((folder / "dataset.json").read_text())
    manifest["column_sizes"].pop()
    (folder / "dataset.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"dataset.json: column_sizes: Tuple should have at least 26 items"):
        clicks.verify(folder)


# As the worker reads them.


def test_a_worker_gets_rows_of_the_one_table(tmp_path: Path) -> None:
    folder = made(tmp_path / "clicks")
    file, raw = ClickFile(str(folder), 1200), words(folder)
    batch = file.batch(np.array([5, 2]))
    rows = raw[[5, 2]][:, 14:] + offsets(column_sizes(1000))
    assert (file.samples, batch.categories.tolist()) == (500, rows.tolist())
    assert batch.dense.tolist() == raw[[5, 2]][:, 1:14].copy().view("<f4").tolist()
    assert batch.labels.tolist() == raw[[5, 2], 0].tolist()
    one, other = rows[:, 0], rows[:, 1]
    assert batch.crossed[:, 0].tolist() == ((one * 1_000_003 + other) % 1200).tolist()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: b"", "is cut: it has 0 of 80000 bytes, 160 a sample"),
        (lambda data: data[:-1], "is cut: it has 79999 of 80000 bytes, 160 a sample"),
    ],
    ids=["empty", "cut"],
)
def test_a_worker_refuses_files_that_are_empty_or_cut(tmp_path: Path, spoil: object, message: str) -> None:
    train = made(tmp_path / "clicks") / "train.bin"
    assert callable(spoil)
    train.write_bytes(spoil(train.read_bytes()))
    with pytest.raises(RunError) as stopped:
        ClickFile(str(tmp_path / "clicks"), 1000)
    assert stopped.value.outcome == "failed"
    assert message in stopped.value.reason


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        (slice(0, 1), "<f4", "a label of its first records"),
        (slice(1, 14), "<u4", "a dense field of its first"),
    ],
)
def test_a_worker_refuses_records_of_other_types(
    tmp_path: Path, columns: slice, kind: str, message: str
) -> None:
    """As other programs have them in the same places: labels as floats, dense fields as integers."""
    folder = made(tmp_path / "clicks")
    records = words(folder)
    values = records[:, columns].copy().view("<u4" if kind == "<f4" else "<f4")
    records[:, columns] = np.ceil(values).astype(kind).view("<u4")
    records.tofile(folder / "train.bin")
    with pytest.raises(RunError, match=message):
        ClickFile(str(folder), 1000)


def test_a_worker_checks_categories_against_fields_and_tables(tmp_path: Path) -> None:
    folder = made(tmp_path / "clicks")
    with pytest.raises(RunError, match="has 1000 categories, the model's tables have 999 rows"):
        ClickFile(str(folder), 999)
    set_word(folder, 7, 39, 5000)
    size = column_sizes(1000)[25]
    with pytest.raises(
        RunError, match=rf"sample 7 of .*train.bin has category 5000 in C26, which has {size}"
    ):
        ClickFile(str(folder), 1000).batch(np.array([1, 7]))


# Other forms.


@pytest.fixture(params=["tfrecord", "parquet"])
def form(request: pytest.FixtureRequest) -> Form:
    if request.param == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'trainmark[parquet]'")
    return Form(request.param)


@pytest.fixture
def converted(form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(conversion, "SHARD", 200)
    clicks.convert(made(tmp_path / "raw"), tmp_path / "converted", form)
    return tmp_path / "converted"


def spoil(path: Path, sample: int, name: str, value: int | None) -> None:
    """Write another category into a sample of a file, or leave its column out."""
    if path.suffix == ".parquet":
        import pyarrow as arrow
        from pyarrow import parquet

        table = parquet.read_table(path)
        at, column = table.column_names.index(name), table[name].to_pylist()
        table = table.remove_column(at)
        if value is not None:
            column[sample] = value
            table = table.add_column(at, name, arrow.array(column, "int32"))
        parquet.write_table(table, path)
        return
    with path.open("rb") as file:
        records = [record.data for record in read_records(file, path.stat().st_size)]
    values = {key: one for key, one in decode_lists(records[sample]).items() if key != name}
    records[sample] = encode_lists(values if value is None else {**values, name: [value]})
    path.write_bytes(b"".join(map(frame, records)))


def test_converted_clicks_are_whole_and_verified(converted: Path, form: Form) -> None:
    report = clicks.verify(converted)
    assert (report.form, report.files, report.records, report.problems) == (form, 3, 500, ())
    clicks.convert(converted.parent / "raw", converted, form)
    with pytest.raises(InputError, match="holds another data set"):
        clicks.convert(made(converted.parent / "b", SPEC.model_copy(update={"seed": 4})), converted, form)


def test_a_conversion_resumes_with_the_unfinished_file(
    form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "SHARD", 200)
    raw, folder = made(tmp_path / "raw"), tmp_path / "converted"

    def stop(done: int, _total: int) -> None:
        if done == 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clicks.convert(raw, folder, form, stop)
    (first,) = folder.glob(f"*.{form}")
    assert clicks.recognise(folder)
    with pytest.raises(
        InputError, match=r"its creation was interrupted; run 'trainmark data convert-clicks'"
    ):
        clicks.verify(folder)
    before = first.stat().st_mtime_ns
    clicks.convert(raw, folder, form)
    assert (first.stat().st_mtime_ns, clicks.verify(folder).problems) == (before, ())


def test_broken_files_of_other_forms_are_found_and_named(converted: Path) -> None:
    first, second, third = sorted(converted.glob("train-*"))
    data = second.read_bytes()
    spoil(first, 7, "C3", 10**6)
    second.write_bytes(data[:-9])
    third.unlink()
    problems = {(one.path, one.kind): one.detail for one in clicks.verify(converted).problems}
    assert problems[first.name, ProblemKind.BROKEN].startswith(
        "sample 7 has category 1000000 in C3, which has "
    )
    assert (second.name, ProblemKind.TRUNCATED) in problems
    assert (third.name, ProblemKind.MISSING) in problems


@IMPOSSIBLE
def test_invalid_samples_that_were_converted_unchecked_are_found(
    form: Form, tmp_path: Path, column: int, word: int, message: str
) -> None:
    """Each checksum is right: whoever wrote the files wrote these values."""
    raw, folder = made(tmp_path / "raw"), tmp_path / "written"
    set_word(raw, 7, column, word)
    written(folder, form, words(raw))
    (problem,) = clicks.verify(folder).problems
    assert (problem.path, problem.kind) == (f"train-00000-of-00001.{form}", ProblemKind.BROKEN)
    assert problem.detail.startswith(message)


@IMPOSSIBLE
def test_an_invalid_sample_stops_the_conversion_without_leftovers(
    form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: int, word: int, message: str
) -> None:
    monkeypatch.setattr(conversion, "SHARD", 200)
    raw = made(tmp_path / "raw")
    set_word(raw, 407, column, word)
    with pytest.raises(InputError) as stopped:
        clicks.convert(raw, tmp_path / "converted", form)
    error = str(stopped.value)
    assert error.startswith(f"{raw}/train.bin: {message.replace('sample 7', 'sample 407')}")
    assert error.endswith("; repair the file, or make the data set again in another folder")
    assert not (tmp_path / "converted").exists()


def test_a_manifest_without_a_column_is_not_converted(form: Form, tmp_path: Path) -> None:
    raw = made(tmp_path / "raw")
    without_column(raw, "C14")
    with pytest.raises(InputError, match=r"raw/dataset.json: has no column C14; repair the file, or make"):
        clicks.convert(raw, tmp_path / "converted", form)
    assert not (tmp_path / "converted").exists()


def forms_of_a_sample() -> dict[str, bytes]:
    """Return Examples that nearly are what a conversion writes, or are but for their form; none has to be wrong."""
    row = np.zeros(40, "<u4")
    row[14:] = np.arange(26) * 7_001
    plain = encode_sample(row)
    features = list(features_of(plain))
    values = {"label": [0], "C3": [5], "C26": [9]}
    forms = {"plain": plain, "empty": b"", "cut": plain[:-1], "longer": plain + b"\0", "twice": plain + plain}
    for word in (127, 128, 1 << 14, 1 << 21, 1 << 28, (1 << 32) - 1):
        forms[f"all {word}"] = encode_sample(np.full(40, word, "<u4"))
    for name in values:
        at = COLUMNS.index(name)
        for value in (-1, 1 << 32, 1 << 35, (1 << 63) - 1):
            other = [*features[:at], encode_feature(name, [value]), *features[at + 1 :]]
            forms[f"{name} {value}"] = encode_features(other)
        forms[f"{name} of two"] = encode_features(
            [*features[:at], encode_feature(name, [1, 2]), *features[at + 1 :]]
        )
        forms[f"{name} a float"] = encode_features(
            [*features[:at], encode_feature(name, [1.0]), *features[at + 1 :]]
        )
        forms[f"{name} not there"] = encode_features([*features[:at], *features[at + 1 :]])
        forms[f"{name} last"] = encode_features([*features[:at], *features[at + 1 :], features[at]])
        long = encode_feature(name, [1 << 14]).replace(b"\x80\x80\x01", b"\x81\x80\x00")
        forms[f"{name} in a longer form"] = encode_features([*features[:at], long, *features[at + 1 :]])
        open_ended = encode_feature(name, [1 << 14]).replace(b"\x80\x80\x01", b"\x81\x80\x80")
        forms[f"{name} without an end"] = encode_features([*features[:at], open_ended, *features[at + 1 :]])
        two = encode_feature(name, [1 << 14]).replace(b"\x80\x80\x01", b"\x01\x80\x01")
        forms[f"{name} of two in the room of one"] = encode_features(
            [*features[:at], two, *features[at + 1 :]]
        )
    forms["another name"] = plain.replace(b"C14", b"C44")
    forms["I2 an integer"] = encode_features([*features[:2], encode_feature("I2", [1]), *features[3:]])
    forms["one more"] = encode_features([*features, encode_feature("C27", [1])])
    return forms


def read_singly(record: bytes) -> list[int] | None:
    try:
        found = decode_sample(record)
    except ValueError:
        return None
    return [found[name] for name in COLUMNS] if all(name in found for name in COLUMNS) else None


def test_batch_decoding_equals_single_decoding_or_defers_to_it() -> None:
    forms = forms_of_a_sample()
    words, known = decode_samples(list(forms.values()))
    for (form, record), row, whole in zip(forms.items(), words.tolist(), known.tolist(), strict=True):
        assert not whole or row == read_singly(record), form
    assert {form for form, whole in zip(forms, known, strict=True) if whole} >= {
        "plain",
        "C3 in a longer form",
        *(f"all {word}" for word in (127, 128, 1 << 14, 1 << 21, 1 << 28, (1 << 32) - 1)),
    }


@given(
    rows=st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=40, max_size=40), min_size=1, max_size=4),
    changes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 700), st.integers(1, 255)), max_size=3),
)
def test_batch_decoding_of_damaged_bytes_equals_single_decoding(
    rows: list[list[int]], changes: list[tuple[int, int, int]]
) -> None:
    written_as = [bytearray(encode_sample(np.array(row, "<u4"))) for row in rows]
    for number, at, by in changes:
        changed = written_as[number % len(rows)]
        changed[at % len(changed)] ^= by
    damaged = [bytes(record) for record in written_as]
    words, known = decode_samples(damaged)
    for record, row, whole in zip(damaged, words.tolist(), known.tolist(), strict=True):
        assert not whole or row == read_singly(record)
    if not changes:
        assert known.all()
        assert words.tolist() == rows


@pytest.mark.parametrize("block", [7, 4096])
def test_verification_of_examples_does_not_depend_on_the_block_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    raw = words(made(tmp_path / "raw"))
    framed = [frame(encode_sample(row)) for row in raw[:40]]
    broken = bytearray(framed[0])
    broken[20] ^= 1
    spoiled = [frame(record) for record in forms_of_a_sample().values()] + [
        bytes(broken),
        framed[0][:-3],
        b"\1",
    ]
    results: list[list[object]] = []
    for whole in (True, False):
        monkeypatch.setattr(verification, "EXAMPLES", block if whole else 4096)
        if not whole:
            monkeypatch.setattr(verification, "decode_samples", none_known)
        results.append([])
        for record in spoiled:
            folder = tmp_path / f"{whole}{len(results[-1])}"
            written(folder, Form.TFRECORD, raw[:1])
            path = folder / "train-00000-of-00001.tfrecord"
            path.write_bytes(b"".join([*framed[:20], record, *framed[20:]]))
            report = clicks.verify(folder)
            results[-1].append((report.records, report.problems))
    assert results[0] == results[1]


def none_known(records: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((len(records), 40), np.uint32), np.zeros(len(records), np.bool_)


def test_a_complete_conversion_is_not_repeated(converted: Path, form: Form) -> None:
    with pytest.raises(InputError, match=f"converted: holds {form}; only raw clicks can be converted"):
        clicks.convert(converted, converted.parent / "again", form)


def written(folder: Path, form: Form, samples: np.ndarray) -> None:
    """Write samples as a conversion does, whatever is in them."""
    write = {Form.TFRECORD: conversion.write_tfrecord, Form.PARQUET: conversion.write_parquet}[form]
    name = f"train-00000-of-00001.{form}"
    folder.mkdir()
    write(folder / name, samples)
    sums = format_sums({name: sha256_of_file(folder / name)})
    (folder / "SHA256SUMS").write_text(sums)
    manifest = ClickManifest(
        spec=SPEC,
        form=form,
        column_sizes=tuple(column_sizes(SPEC.vocabulary)),
        sums_sha256=sha256(sums.encode()),
    )
    write_manifest(folder, manifest)


def test_a_column_that_is_missing_in_a_file_is_named(converted: Path) -> None:
    first = sorted(converted.glob("train-*"))[0]
    spoil(first, 7, "C14", None)
    details = [one.detail for one in clicks.verify(converted).problems if one.kind is ProblemKind.MISSING]
    assert [detail.removeprefix("sample 7 ") for detail in details] == ["has no column C14"]


def test_a_worker_reads_each_row_of_parquet_once_an_epoch(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'trainmark[parquet]'")
    raw = made(tmp_path / "raw")
    clicks.convert(raw, tmp_path / "p", Form.PARQUET)
    file = Columns(str(tmp_path / "p"), 1000)
    places = [
        place_from({"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"})
        for rank in (0, 1)
    ]
    read = [next(file.batches(250, place, seed=5)) for place in places]
    dense = np.concatenate([batch.dense for batch in read])
    assert sorted(map(tuple, dense)) == sorted(map(tuple, words(raw)[:, 1:14].copy().view("<f4")))
    assert file.samples == 500


def test_parquet_without_pyarrow_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = made(tmp_path / "raw")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"Parquet needs pyarrow: pip install 'trainmark\[parquet\]'"):
        clicks.convert(raw, tmp_path / "p", Form.PARQUET)
    with pytest.raises(RunError, match=r"loader parquet needs pyarrow, which .* lacks"):
        Columns(str(raw), 1000)
