"""Reading regular lines in bulk gives what the regular expression gives, to the last bit, or leaves it to that."""

import random
import re

import numpy as np
import pytest
from conftest_logs import Reader, sample
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trainmark.logs import Status
from trainmark.logs.lines.bulk import fields_among_others, regular_fields
from trainmark.logs.lines.fields import _searched, extract, stamps
from trainmark.logs.lines.literals import depends_on_digits
from trainmark.logs.lines.transport import clean, strip_colours
from trainmark.logs.records import has_bad_loss
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import formats, synthetic_log

_LINE = re.compile(rb"step (?P<step>\d+), rate: (?P<rate>\S+) img")
_REGULAR = {
    "ngc-pytorch-convnets",
    "ngc-tensorflow-convnets",
    "ngc-mxnet-convnets",
    "ngc-pytorch-bert",
    "ngc-tensorflow-bert",
    "paddleclas",
    "paddlenlp-bert",
    "paddlenlp-transformer",
    "paddleseg",
}


def _records(name: str, pattern: re.Pattern[bytes]) -> bytes:
    chance = random.Random(name)
    times = [0.05 + 0.2 * chance.random() for _ in range(400)]
    lines = strip_colours(clean(synthetic_log(name, SampleRun(times)).encode())).splitlines(keepends=True)
    return b"".join(line for line in lines if pattern.search(line))


def _same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name], equal_nan=True) for name in left
    )


@pytest.mark.parametrize("digits", range(7))
def test_a_stamp_is_the_same_double_in_bulk_and_one_by_one(digits: int) -> None:
    line = re.compile(rb"(?P<stamp>\d{4}-\S+ \S+) rate: (?P<rate>\S+) img")
    shares = [
        f"{number / 10**digits:.{digits}f}"[1:] for number in range(0, 10**digits, max(10**digits // 200, 1))
    ]
    words = [f"2023-07-28 06:50:{second:02d}{share}".encode() for second in (0, 37) for share in shares] * 20
    found = regular_fields(line, b"".join(word + b" rate: 5 img\n" for word in words))

    assert found is not None
    assert found["clock_s"].tolist() == stamps(words).tolist()


@pytest.mark.parametrize("name", [known.name for known in formats() if known.records])
def test_bulk_and_expression_agree_on_every_format(name: str) -> None:
    pattern = next(f for f in formats() if f.name == name).records[0]
    text = _records(name, pattern)

    found = regular_fields(pattern, text)

    assert found is not None or name not in _REGULAR
    assert found is None or _same(found, _searched(pattern, text))


@pytest.mark.parametrize("colour", [b"\x1b[32m", b"\x1b[38;5;12m"])
def test_coloured_lines_are_read_in_bulk_as_they_are(colour: bytes) -> None:
    lines = [b"%s[INFO]\x1b[0m - step %d, rate: %d.25 img\x1b[0m\n" % (colour, i, 100 + i) for i in range(40)]

    found = regular_fields(_LINE, b"".join(lines))

    assert found is not None
    assert found["rate"].tolist() == [100.25 + i for i in range(40)]


def test_a_colour_code_within_a_record_is_left_to_the_expression() -> None:
    text = b"".join(b"step %d, \x1b[1mrate: \x1b[32m%d.5\x1b[0m img\n" % (i, i) for i in range(40))

    assert extract(_LINE, text).columns["rate"].tolist() == [i + 0.5 for i in range(40)]


@given(values=st.lists(st.floats(1e-3, 1e8), min_size=16, max_size=40), digits=st.integers(0, 12))
def test_a_number_is_the_double_that_float_gives(values: list[float], digits: int) -> None:
    for words in ([f"{value:.{digits}f}" for value in values], [repr(value) for value in values]):
        text = "".join(f"step {i}, rate: {word} img\n" for i, word in enumerate(words)).encode()

        found = regular_fields(_LINE, text)

        assert found is None or found["rate"].tolist() == [float(word) for word in words]
        assert extract(_LINE, text).columns["rate"].tolist() == [float(word) for word in words]


@pytest.mark.parametrize(
    "word", ["nan", "None", "-1.0", "+5", "1e5", "1.2.3", "4 5", "", ".5", "7.", "--", "0x1F", "1_000", "inf"]
)
@pytest.mark.parametrize("at", [0, 1, 20, 39])
def test_one_odd_word_among_regular_numbers_is_read_as_the_expression_reads_it(word: str, at: int) -> None:
    words = ["12.5"] * 40
    words[at] = word
    text = "".join(f"step {i}, rate: {word} img\n" for i, word in enumerate(words)).encode()

    assert _same(extract(_LINE, text).columns, _searched(_LINE, text))


@example(
    name="ngc-mxnet-convnets",
    noise=[(0.5946861582167638, b"\x01"), (0.5946861582167638, b"\x01\x01\x01\x01"), (0.0625, b"\x01")],
)
@given(
    name=st.sampled_from(sorted(_REGULAR)),
    noise=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=3)), min_size=1, max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_noise_anywhere_changes_no_more_than_it_does_for_the_expression(
    name: str, noise: list[tuple[float, bytes]]
) -> None:
    pattern = next(f for f in formats() if f.name == name).records[0]
    text = _records(name, pattern)
    for share, insert in noise:
        at = int(share * len(text))
        text = text[:at] + insert + text[at:]
    text = clean(text)

    found, wanted = extract(pattern, text).columns, _searched(pattern, strip_colours(text))

    assert _same(found, wanted)


def test_two_records_on_each_line_are_both_read() -> None:
    text = b"".join(b"step %d, rate: 5 img step %d, rate: 6 img\n" % (i, i) for i in range(40))

    assert len(extract(_LINE, text).columns["rate"]) == 80


def test_a_long_coloured_log_is_read_from_both_its_ends(read: Reader) -> None:
    log = read(sample("paddlenlp-transformer", steps=12_000))

    assert (log.facts.gpus, log.facts.batch_per_device, log.records.count) == (8, 64, 12_000)


@pytest.mark.parametrize("word", ["nan", "NaN", "inf", "-inf", "NAN"])
@pytest.mark.parametrize("at", [0, 1, 7000, 19_999])
def test_a_nan_loss_anywhere_in_a_long_log_is_found(read: Reader, word: str, at: int) -> None:
    lines = sample("ngc-pytorch-convnets", steps=20_000).splitlines(keepends=True)
    lines[at + 1] = lines[at + 1].replace("6.91234", word)

    log = read("".join(lines))

    assert log.status is Status.OK
    assert "loss-not-finite" in {problem.code for problem in log.problems}
    assert "loss-not-finite" not in {
        p.code for p in read(sample("ngc-pytorch-convnets", steps=2000)).problems
    }


@pytest.mark.parametrize("name", ["keras", "lightning", "nanogpt", "timm", "hf-trainer"])
def test_other_lines_between_the_records_change_nothing(name: str) -> None:
    pattern = (*next(f for f in formats() if f.name == name).records, _LINE)[0]
    lines = (
        _records(name, pattern) or b"".join(b"step %d, rate: %d.5 img\n" % (i, i) for i in range(400))
    ) * 4
    text = b"".join(
        b"Epoch %d\n" % number * (number % 3) + line
        for number, line in enumerate(lines.splitlines(keepends=True))
    )
    assert len(text) > 1 << 15

    found = extract(pattern, text)

    assert _same(found.columns, _searched(pattern, text))
    assert sum(map(len, found.samples)) < len(text) / 2 or name == "lightning"


def test_a_pattern_that_needs_the_next_lines_gets_them() -> None:
    pattern = re.compile(rb"step (?P<step>\d+) of many\n(?!not this\n)")
    text = b"".join(b"step %d of many\nnot this\n" % i for i in range(3000))

    # A piece's last line has none after it.
    assert len(extract(pattern, text).columns.get("step", ())) < 10


def test_the_blank_and_dash_before_a_number_must_be_in_every_line() -> None:
    pattern = re.compile(rb"\] - (?P<step>\d+)s ")
    lines = [b"[===] - %ds \n" % i for i in range(40)]

    assert regular_fields(pattern, b"".join(lines)) is not None
    assert regular_fields(pattern, b"".join([*lines, b"[===] -  -7s \n"])) is None
    assert regular_fields(pattern, b"".join([*lines, b"[===]  - 7s \n"])) is None


@pytest.mark.parametrize(
    "line", [b"loss: NaN", b"Loss -inf", b'{"loss_finite": false}', b"INFO loss: Infinity"]
)
@pytest.mark.parametrize("other_lines", [b"", b"INFO one\nINFO two\n"])
def test_a_nan_loss_is_found_among_similar_words(line: bytes, other_lines: bytes) -> None:
    assert has_bad_loss(other_lines + line + b"\n" + other_lines)
    assert not has_bad_loss(other_lines + b"loss: 0.5 banana\n")


def test_an_expression_that_depends_on_digits_reads_each_line() -> None:
    drawn = "\u2501" * 20
    epoch = f"Epoch 1/9\n195/195 {drawn} 5s 63ms/step - loss: 1\n195/195 {drawn} 0s 63ms/step - loss: 1\n"
    text = (epoch * 1000).encode()
    pattern = re.compile(rb"\d+/\d+ (?:\xe2\x94\x81)+ (?P<bar_s>[1-9]\d*)s ")

    assert extract(pattern, text).columns["bar_s"].tolist() == [5.0] * 1000


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (rb"(?P<step>\d+) (?P<rate>[\d.]+)/s[^\n]*?(?P<other>\S+)\s", False),
        (rb"a(?:b|c[^,}\s]+)*?[,}]", False),
        (rb"(?P<one>\d+)/(?P=one) ", True),
        (rb"(?:a|b(?:[1-9]\d*)?)s", True),
        (rb"x(?!\d+2)", True),
        (rb"E2E", True),
        (rb"[^0]x", True),
    ],
)
def test_expressions_that_depend_on_digits_are_detected(pattern: bytes, expected: bool) -> None:
    assert depends_on_digits(re.compile(pattern)) is expected


@pytest.mark.parametrize("places", [0, 1, 3, 12])
def test_numbers_with_an_exponent_are_read_in_bulk_to_the_doubles_that_float_gives(places: int) -> None:
    generator = random.Random(places)
    words = [f"{generator.uniform(-9, 9):.{places}e}".lstrip("-") for _ in range(20)]
    words += [f"{generator.random() * 10.0 ** generator.randrange(-6, 9):.{places}e}" for _ in range(200)]
    text = "".join(f"step {number} rate: {word} samples/s\n" for number, word in enumerate(words)).encode()

    found = regular_fields(re.compile(rb"step (?P<step>\d+) rate: (?P<rate>[\d.]+(?:e[+-]?\d+)?) "), text)

    assert found is not None
    assert found["rate"].tolist() == [float(word) for word in words]


def test_an_exponent_beyond_exact_powers_is_left_to_the_expression() -> None:
    text = b"".join(b"step %d rate: 2.5e+40 samples/s\n" % number for number in range(30))

    assert regular_fields(re.compile(rb"step (?P<step>\d+) rate: (?P<rate>[\d.]+e\+\d+) "), text) is None


_RATE = re.compile(rb"- E2E \(Tokens/sec\): (?P<rate>\d[\d.]*)\s")


def _among_others(pattern: re.Pattern[bytes], text: bytes) -> dict[str, np.ndarray] | None:
    found = fields_among_others(pattern, text, None)
    return None if found is None else found[0]


def test_a_pattern_whose_words_have_digits_is_read_in_bulk() -> None:
    text = b"".join(b"  - E2E (Tokens/sec): %d.25\n  - E2E again: %d\n" % (100 + i, i) for i in range(800))

    found = _among_others(_RATE, text)

    assert found is not None
    assert _same(found, _searched(_RATE, text))
    assert len(found["rate"]) == 800


def test_a_line_with_another_digit_in_a_word_is_left_to_the_expression() -> None:
    text = b"".join(b"  - E%dE (Tokens/sec): %d.25\n" % (3 if i == 70 else 2, 100 + i) for i in range(800))

    assert _among_others(_RATE, text) is None
    assert _same(extract(_RATE, text).columns, _searched(_RATE, text))


def test_records_of_several_lines_are_read_in_bulk_in_the_order_of_the_text() -> None:
    pattern = re.compile(
        rb"(?:\[step=(?P<step>\d+),)|(?: TPS=(?P<rate>[\d.]+)\s)|(?: time=(?P<step_time_s>[\d.]+)s)"
    )
    text = b"".join(
        b"[step=%d,epoch=1]\n    LR=0.0005\n    TPS=%d\n    time=%d.5s\n" % (i, 7 * i, i % 20)
        for i in range(900)
    )

    found = _among_others(pattern, text)

    assert found is not None
    assert _same(found, _searched(pattern, text))
    assert np.isfinite(found["step"]).sum() == np.isfinite(found["rate"]).sum() == 900
