"""Prefixes, ranks, colours, NULs, carriage returns, archives: gone before any format looks."""

import gzip

import pytest
from conftest_logs import Reader, rates, sample
from hypothesis import given
from hypothesis import strategies as st

from trainmark.logs import Facts, ParsedLog, Severity, Status
from trainmark.logs.lines.transport import Demultiplexer, begin_lines, clean, read_pieces, strip_colours
from trainmark.schema.precision import Precision


def test_clean_text_has_no_nul_no_colour_and_one_kind_of_line_end() -> None:
    assert (
        strip_colours(clean(b"a\0b\x1b[32m green\x1b[0m \x1b[1;31mred\x1b[m\r\nbar 1\rbar 2\n"))
        == b"ab green red\nbar 1\nbar 2\n"
    )


def test_pieces_end_at_line_ends_and_lose_nothing() -> None:
    import io

    data = b"".join(b"line %d\n" % i for i in range(1000)) + b"no end"

    found = list(read_pieces(io.BytesIO(data), size=100))

    assert b"".join(found) == data
    assert all(piece.endswith(b"\n") for piece in found[:-1])


@pytest.mark.parametrize(
    "tag",
    [
        "[1,{rank}]<stdout>:",
        "[1,{rank}]<stderr>:",
        "Wed Jun  1 10:54:35 2022[1,{rank}]<stdout>:",
        "[prterun-node1-4242@1,{rank}]<stdout>: ",
        "[default{rank}]:",
        "[rank{rank}]: ",
        "{rank}: ",
    ],
)
def test_ranks_are_distinguished_by_their_tags(read: Reader, tag: str) -> None:
    lines = sample("ngc-pytorch-convnets").splitlines()
    text = "".join(tag.format(rank=rank) + line + "\n" for line in lines for rank in range(8))

    log: ParsedLog = read(text, given=Facts(precision=Precision.FP32))

    assert log.status is Status.OK
    assert rates(log) == rates(read(sample("ngc-pytorch-convnets")))
    assert [p.code for p in log.problems] == ["several-ranks"]


@pytest.mark.parametrize(
    "tag",
    [
        "[1,{}]<stdout>:",
        "[1,{}]<stderr>:",
        "Wed Jun  1 10:54:35 2022[1,{}]<stdout>:",
        "[prterun-n1-42@1,{}]<stdout>: ",
        "[prterun-node17-of-the-cluster-4242@1,{}]<stdout>: ",
        "[rank{}]: ",
        "{:>4}: ",
    ],
)
@given(
    lines=st.lists(
        st.tuples(st.one_of(st.integers(0, 3), st.integers(0, 999_999)), st.text("ab 1:.", max_size=9)),
        min_size=12,
        max_size=40,
    ),
    cut=st.integers(1, 11),
)
def test_lines_of_ranks_in_turn_are_those_of_each_rank(
    tag: str, lines: list[tuple[int, str]], cut: int
) -> None:
    # Numbers that only rise are a counter of steps.
    lines = [*lines, (lines[0][0], "last"), (lines[0][0], "line")]
    written = [f"{tag.format(rank)}x{text}\n".encode() for rank, text in lines]
    streams = Demultiplexer()
    found: dict[int | None, bytes] = {}
    for piece in (written[:cut], written[cut:]):
        for rank, part in streams.split(b"".join(piece)):
            found[rank] = found.get(rank, b"") + part

    assert found == {
        rank: b"".join(f"x{text}\n".encode() for other, text in lines if other == rank) for rank, _ in lines
    }
    assert streams.ranks == {rank for rank, _ in lines}


@given(
    st.lists(
        st.sampled_from(["\x1b[0m", "\x1b[32m", "\x1b[1;31m", "\x1b[K", "m", "\x1b[38;5;120m", "line 1\n"])
    )
)
def test_colours_of_a_large_text_are_removed_as_those_of_a_small_one(parts: list[str]) -> None:
    text = "".join(parts).encode()
    many = 40_000 // max(len(text), 1)

    assert strip_colours(b"\x1b[0m" + text * many) == strip_colours(text) * many


def test_a_line_broken_by_tags_is_joined() -> None:
    streams = Demultiplexer()

    found = streams.split(b"[1,0]<stdout>:train.ips : 15[1,1]<stdout>:other\n[1,0]<stdout>:02.5 images\n")

    assert sorted(found) == [(0, b"train.ips : 1502.5 images\n"), (1, b"other\n")]


@pytest.mark.parametrize("tags", [["[1,0]<stdout>:"], ["[1,0]<stdout>:", "[1,1]<stdout>:"]])
def test_a_last_line_without_an_end_is_there_once(tags: list[str]) -> None:
    streams = Demultiplexer()
    whole = "".join(f"{tag}step 1\n" for tag in tags).encode()
    found = [*streams.split(whole), *streams.split(f"{tags[-1]}step 2".encode()), *streams.rest()]

    assert b"".join(text for _, text in found) == b"step 1\n" * len(tags) + b"step 2"


def test_a_prefix_glued_after_the_last_value_is_no_part_of_it(read: Reader) -> None:
    text = (
        "Sun May 29 15:01:07 2022[1,0]<stdout>:DLL 2022-05-29 15:01:07.641938 -  e2e_train_time : 2344.8  "
        "training_sequences_per_second : 3496.938592099369  final_loss : 8.1  raw_train_time : 2319.19 "
        "Sun May 29 15:01:07 2022[1,0]<stdout>:"
    )

    log = read(text)

    assert log.figures == {"summary": 3496.938592099369}


def test_a_progress_bar_before_a_record_on_one_line_does_no_harm(read: Reader) -> None:
    text = (
        "[1,0]<stdout>:\rIteration:   7%|7  | 78/1147 [00:56<12:53,  1.38it/s]Sun May 29 14:57:11 2022[1,0]<stdout>:"
        "DLL 2022-05-29 14:57:11.448247 - Training Epoch: 0 Training Iteration: 27  average_loss : 8.1 \n"
    )

    log = read(text)

    assert [(r.step, r.rate) for r in log.records.rows()] == [(27, None)]


def test_the_last_record_without_a_line_end_is_not_lost(read: Reader) -> None:
    whole = sample("paddlenlp-bert").splitlines()
    last = max(i for i, line in enumerate(whole) if line.startswith("total step"))

    log = read("\n".join(whole[: last + 1]))

    assert log.records.count == len([line for line in whole if line.startswith("total step")])


def test_a_gzip_archive_is_read_as_its_text(read: Reader) -> None:
    text = sample("paddleclas").encode()

    assert rates(read(gzip.compress(text))) == rates(read(text))


def test_a_truncated_gzip_archive_gives_its_readable_part_and_a_problem(read: Reader) -> None:
    packed = gzip.compress(sample("ngc-pytorch-convnets", steps=4000).encode())

    log = read(packed[: len(packed) // 2])

    assert log.records.count > 100
    assert any(p.code == "incomplete" and p.severity is Severity.DOUBT for p in log.problems)


def test_a_launchers_own_lines_before_the_tags_do_not_hide_them() -> None:
    untagged = b"W0616 22:30:01 torch/distributed/run.py:766] *****\n"
    tagged = b"".join(b"[rank%d]: step %d\n" % (step % 2, step) for step in range(2000))

    texts: dict[int | None, bytes] = {}
    for rank, text in Demultiplexer().split(untagged + tagged):
        texts[rank] = texts.get(rank, b"") + text

    assert texts[None] == untagged
    assert [texts[rank].count(b"\n") for rank in (0, 1)] == [1000, 1000]


def test_one_tagged_rank_is_read_at_once_as_it_is_line_by_line() -> None:
    text = b"".join(b"step %d\n" % step for step in range(500))

    [(rank, found)] = Demultiplexer().split(
        b"".join(b"[rank3]: " + line for line in text.splitlines(keepends=True))
    )

    assert (rank, found) == (3, text)


@pytest.mark.parametrize(
    ("text", "stamped"),
    [
        (b"a\nb\n", b"S a\nS b\n"),
        (b"a\rb\r\nc\n", b"S a\rS b\r\nS c\n"),
        (b"[1,0]<stdout>:a\nb\n", b"[1,0]<stdout>:S a\nS b\n"),
        (b"[default1]:a\n[default0]:b", b"[default1]:S a\n[default0]:S b"),
        (b" 9: a\n10: b\n", b" 9: S a\n10: S b\n"),
        (b"", b""),
    ],
)
def test_a_word_at_the_begin_of_lines_follows_the_tag_of_the_rank(text: bytes, stamped: bytes) -> None:
    assert begin_lines(text, b"S ") == stamped


def test_numbers_before_lines_that_only_rise_are_a_counter_and_no_ranks() -> None:
    counted = b"".join(b"%d: loss 2.41, 0.25 seconds\n" % step for step in range(1, 101))
    tagged = b"".join(b"%d: loss 2.41, 0.25 seconds\n" % (line % 4) for line in range(100))

    streams = Demultiplexer()
    assert streams.split(counted) == [(None, counted)]
    assert streams.split(b"101: loss 2.41, 0.25 seconds\n") == [(None, b"101: loss 2.41, 0.25 seconds\n")]
    assert {rank for rank, _ in Demultiplexer().split(tagged)} == {0, 1, 2, 3}
