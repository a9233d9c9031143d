"""Lists of CPUs, also those of other machines."""

import pytest

from trainmark.node.machine import MOST_CPUS, count_cpus, parse_cpus


def test_ranges_and_numbers_are_counted_once() -> None:
    assert parse_cpus("0-3,2,8") == {0, 1, 2, 3, 8}
    assert count_cpus("0-3,2,8") == 5


@pytest.mark.parametrize("text", ["", "<script>", "3-1", "-1", "0-", "²", "0-999999999999", f"0-{MOST_CPUS}"])
def test_another_text_is_no_list_and_takes_no_memory(text: str) -> None:
    assert count_cpus(text) is None
    with pytest.raises(ValueError, match="'"):
        parse_cpus(text)
