"""Detection of slow hosts; ``benchmarks/check_alarms.py`` counts its false alarms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.check.bandwidth import compare_speeds
from trainmark.check.network import long_trips
from trainmark.check.outliers import compare
from trainmark.schema.check import Level, Quantity, Timing

ROUNDS = (1.0, 1.002, 1.01, 1.3, 1.05)


def timing(host: str, factor: float = 1.0, kind: str = "a CPU", **more: object) -> Timing:
    """Return the timing of a host that takes ``factor`` times as long; one of its rounds was disturbed."""
    fields = {
        "quantity": Quantity.MATRIX_PRODUCT,
        "host": host,
        "device": "cpu",
        "kind": kind,
        "amount": 1e9,
        "unit": "FLOP",
        "seconds": tuple(factor * second for second in ROUNDS),
    }
    return Timing.model_validate(fields | more)


def named(timings: list[Timing]) -> list[str]:
    return [timing.host for compared in compare(timings) for timing, _ in compared.slow]


@pytest.mark.parametrize("hosts", [2, 3, 4, 8, 64])
def test_only_a_host_slowed_1_3_times_is_reported(hosts: int) -> None:
    healthy = [timing(f"host{place}", 1 + 0.01 * (place % 3)) for place in range(1, hosts)]
    assert named([timing("slow", 1.3), *healthy]) == ["slow"]


@pytest.mark.parametrize("hosts", [2, 5, 64])
def test_healthy_hosts_differ_by_some_per_cent_and_are_not_reported(hosts: int) -> None:
    assert named([timing(f"host{place}", 1 + 0.02 * (place % 3)) for place in range(hosts)]) == []


def test_a_faster_host_is_no_outlier() -> None:
    assert named([timing("fast", 0.5), *(timing(f"host{place}") for place in range(4))]) == []


def test_one_disturbed_round_reports_no_host() -> None:
    disturbed = timing("disturbed", seconds=(5.0, 1.0, 4.0, 1.001, 9.0))
    assert named([disturbed, timing("one"), timing("other")]) == []


def test_devices_of_different_kinds_are_not_compared() -> None:
    assert compare([timing("old", 2.0, kind="an old CPU"), timing("new", kind="a new CPU")]) == ()


def test_if_rounds_differ_widely_a_note_reports_the_lower_sensitivity() -> None:
    wild = [timing(f"host{place}", seconds=(1.0, 1.2, 1.5, 1.9, 2.0)) for place in range(4)]
    assert named([timing("slow", 1.3, seconds=(1.3, 1.6, 2.0, 2.2, 2.6)), *wild]) == []
    # A comparison that would miss a slow host finds nothing clean.
    (found,) = compare_speeds(wild)
    assert found.level is Level.NOTE
    assert "only a device" in found.found
    assert "GFLOP/s" in found.found


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=12))
def test_every_reported_host_is_slower_than_the_bound_over_the_median(factors: list[float]) -> None:
    (compared,) = compare([timing(f"host{place}", factor) for place, factor in enumerate(factors)])
    fastest = min(one.fastest_s for one in compared.timings)
    for one, factor in compared.slow:
        assert factor > 1.05
        assert one.fastest_s > fastest


def test_a_slow_host_is_a_warning_with_the_rate_of_the_others() -> None:
    findings = compare_speeds([timing("slow", 1.5), timing("one"), timing("two")])
    (found,) = [finding for finding in findings if finding.level is Level.WARNING]
    assert found.hosts == ("slow",)
    assert found.found == "1.50 times slower than the others: 0.667 GFLOP/s"
    assert found.others == "1 GFLOP/s"
    assert found.remedy is not None
    assert "5%" in found.remedy


def test_of_three_hosts_the_one_with_only_slow_links_is_reported() -> None:
    def link(host: str, peer: str, factor: float) -> Timing:
        return timing(host, factor, device=peer, quantity=Quantity.LINK, kind="TCP", unit="bytes")

    names = ("a", "b", "c")
    links = [link(one, to, 2.0 if "c" in (one, to) else 1.0) for one in names for to in names if one != to]
    warnings = [finding for finding in compare_speeds(links) if finding.level is Level.WARNING]
    assert [finding.hosts for finding in warnings] == [("c",)]


def test_a_slow_link_of_two_hosts_is_attributed_to_neither() -> None:
    both = [
        timing(one, device=to, quantity=Quantity.LINK, kind="TCP", unit="bytes") for one, to in ("ab", "ba")
    ]
    assert compare_speeds(both) == []


def test_a_slow_network_is_not_blamed_on_the_cooling() -> None:
    links = [
        timing(
            one, 40.0 if "c" in one + to else 1.0, device=to, quantity=Quantity.LINK, kind="TCP", unit="bytes"
        )
        for one, to in ("ab", "ba", "ac", "ca", "bc", "cb")
    ]
    (found,) = compare_speeds(links)
    assert found.hosts == ("c",)
    assert (found.remedy or "").startswith("check its cable, port of the switch, ")


def trips(longer: dict[frozenset[str], float], hosts: str = "abcd") -> dict[tuple[str, str], float]:
    """Return the shortest round trips of all links, 0.01 to 0.4 ms but for the lines in ``longer``."""
    links = [(one, to) for one in hosts for to in hosts if one != to]
    return {
        link: longer.get(frozenset(link), 1e-5 if number % 3 else 4e-4) for number, link in enumerate(links)
    }


def test_a_host_behind_a_delayed_line_is_named() -> None:
    delayed = trips({frozenset((other, "c")): 0.05 for other in "abd"})
    (found,) = long_trips(delayed)
    assert (found.check, found.level, found.hosts) == ("round-trip", Level.WARNING, ("c",))
    assert found.found == "a packet to each other host and back takes at least 50 ms"
    assert found.others == "0.01 to 0.4 ms"


def test_one_delayed_line_is_named_by_its_two_hosts() -> None:
    (found,) = long_trips(trips({frozenset("bd"): 0.003}))
    assert (found.hosts, found.found) == (
        ("b", "d"),
        "a packet between the two and back takes at least 3 ms",
    )


@pytest.mark.parametrize("hosts", ["ab", "abc", "abcd"])
def test_healthy_lines_raise_no_warning(hosts: str) -> None:
    assert long_trips(trips({}, hosts)) == []
    # Two sides of one line: neither is compared.
    assert long_trips({("a", "b"): 0.05, ("b", "a"): 0.05}) == []


def test_products_in_two_precisions_are_not_compared() -> None:
    halves = [timing("one", precision="bf16"), timing("one", 2.0, precision="fp32")]
    assert compare(halves) == ()


def on_h100(host: str, rate: float) -> Timing:
    kind = "NVIDIA H100 80GB HBM3"
    return timing(host, 1.0, kind, device="cuda:0", precision="bf16", amount=rate, seconds=(1.0,))


def test_a_rate_states_its_share_of_the_data_sheet() -> None:
    (one,) = compare_speeds([on_h100("one", 751e12)])
    assert one.level is Level.OK
    assert one.found == (
        "751 TFLOP/s in bf16 on cuda:0 (NVIDIA H100 80GB HBM3), not compared; 76% of 989.4 TFLOP/s "
        "(NVIDIA H100 Tensor Core GPU architecture white paper)"
    )
    (both,) = compare_speeds([on_h100("one", 751e12), on_h100("two", 741e12)])
    assert "741 to 751 TFLOP/s in bf16 on 2 x NVIDIA H100 80GB HBM3; none is" in both.found
    assert "; 75% to 76% of 989.4 TFLOP/s" in both.found


def test_a_device_without_a_data_sheet_has_no_share() -> None:
    (found,) = compare_speeds([timing("one", precision="fp32")])
    assert found.found == "1 GFLOP/s in fp32 on cpu (a CPU), not compared"
