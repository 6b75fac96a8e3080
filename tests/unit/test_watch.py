import pytest

from dramatiq_streams.options import (
    DEFAULT_DISCONNECT_GRACE_MS,
    DEFAULT_LEASE_MS,
)
from dramatiq_streams.watch import tend_interval_ms

SAMPLES = 200


def test_dead_neighbour_is_noticed_within_two_seconds_by_default() -> None:
    found = {
        tend_interval_ms(lease_ms=DEFAULT_LEASE_MS, disconnect_grace_ms=DEFAULT_DISCONNECT_GRACE_MS)
        for _ in range(SAMPLES)
    }

    assert max(found) <= 1_600
    assert len(found) > 1  # not in step


@pytest.mark.parametrize("lease_ms", [1_000, 60_000, 3_600_000])
@pytest.mark.parametrize("grace_ms", [1_000, 10_000, 3_600_000])
def test_three_heartbeats_may_fail_before_a_consumer_is_late(lease_ms: int, grace_ms: int) -> None:
    for _ in range(SAMPLES):
        interval_ms = tend_interval_ms(lease_ms=lease_ms, disconnect_grace_ms=grace_ms)

        assert 4 * interval_ms <= grace_ms
        assert 3 * interval_ms <= lease_ms
