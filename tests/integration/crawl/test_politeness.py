from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import redis

from crawl_actors.politeness import Politeness

SITE = "http://a.example"


@pytest.fixture
def politeness(redis_client: redis.Redis, namespace: str) -> Politeness:
    return Politeness(redis_client, namespace=namespace)


def test_first_request_goes_at_once_and_the_next_ones_wait_their_turn(
    politeness: Politeness,
) -> None:
    slots = [politeness.reserve(SITE, interval_ms=1000) for _ in range(4)]

    assert slots[0].wait_ms == 0
    assert [slot.at_ms - slots[0].at_ms for slot in slots] == [0, 1000, 2000, 3000]


def test_many_workers_never_get_the_same_slot(politeness: Politeness) -> None:
    with ThreadPoolExecutor(8) as pool:
        slots = list(pool.map(lambda _: politeness.reserve(SITE, interval_ms=50), range(80)))

    instants = sorted(slot.at_ms for slot in slots)
    assert all(later - sooner >= 50 for sooner, later in pairwise(instants))


def test_sites_do_not_wait_for_each_other(politeness: Politeness) -> None:
    politeness.reserve(SITE, interval_ms=60_000)

    assert politeness.reserve("http://b.example", interval_ms=60_000).wait_ms == 0


def test_reserved_slot_is_kept_and_not_taken_twice(politeness: Politeness) -> None:
    politeness.reserve(SITE, interval_ms=1000)
    slot = politeness.reserve(SITE, interval_ms=1000)

    again = politeness.reserve(SITE, interval_ms=1000, slot_ms=slot.at_ms)
    next_one = politeness.reserve(SITE, interval_ms=1000)

    assert again.at_ms == slot.at_ms
    assert next_one.at_ms == slot.at_ms + 1000


def test_site_that_closes_pushes_reserved_slots_back_too(politeness: Politeness) -> None:
    slot = politeness.reserve(SITE, interval_ms=100)
    politeness.close(SITE, pause_ms=60_000)

    first = politeness.reserve(SITE, interval_ms=100, slot_ms=slot.at_ms)
    second = politeness.reserve(SITE, interval_ms=100, slot_ms=slot.at_ms)

    assert first.wait_ms > 59_000
    assert second.at_ms == first.at_ms + 100


def test_shorter_pause_does_not_open_a_site_sooner(politeness: Politeness) -> None:
    politeness.close(SITE, pause_ms=60_000)
    politeness.close(SITE, pause_ms=1000)

    assert politeness.reserve(SITE, interval_ms=0).wait_ms > 59_000


def test_site_without_delay_leaves_no_key(
    politeness: Politeness, redis_client: redis.Redis, namespace: str
) -> None:
    assert politeness.reserve(SITE, interval_ms=0).wait_ms == 0
    assert list(redis_client.scan_iter(match=f"*{namespace}*")) == []


def test_key_of_a_site_outlives_its_last_slot_and_then_expires(
    politeness: Politeness, redis_client: redis.Redis, namespace: str
) -> None:
    for _ in range(3):
        politeness.reserve(SITE, interval_ms=10_000)

    (key,) = redis_client.scan_iter(match=f"*{namespace}*")
    assert 30_000 < redis_client.pttl(key) <= 90_000
