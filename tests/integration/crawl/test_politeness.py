from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from time import sleep

import pytest
import redis
import requests

from crawl_actors.politeness import Politeness, Slot
from tests.integration.crawl.conftest import Answer, Site

SITE = "http://a.example"
DELAY_MS = 200


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


def test_slots_that_were_missed_are_spread_again(politeness: Politeness) -> None:
    first = politeness.reserve(SITE, interval_ms=1000)
    missed = [first.at_ms - 30_000 + 1000 * number for number in range(5)]

    slots = [politeness.reserve(SITE, interval_ms=1000, slot_ms=slot) for slot in missed]

    assert [slot.at_ms - first.at_ms for slot in slots] == [1000, 2000, 3000, 4000, 5000]
    assert not any(slot.starts for slot in slots)


def test_slot_that_is_used_soon_after_the_last_start_waits_for_the_rest(
    politeness: Politeness,
) -> None:
    started = politeness.reserve(SITE, interval_ms=1000)

    slot = politeness.reserve(SITE, interval_ms=1000, slot_ms=started.at_ms + 600)

    assert slot.at_ms == started.at_ms + 600
    assert not slot.starts
    assert 600 < slot.wait_ms <= 1000


def test_request_without_a_turn_delays_the_next_one(politeness: Politeness) -> None:
    politeness.note_start(SITE, interval_ms=0)

    slot = politeness.reserve(SITE, interval_ms=1000)

    assert 500 < slot.wait_ms <= 1000


def test_messages_that_missed_their_slots_ask_one_by_one(
    politeness: Politeness,
    redis_client: redis.Redis,
    make_site: Callable[[Mapping[str, Answer]], Site],
) -> None:
    site = make_site({"/": Answer()})
    seconds, microseconds = redis_client.time()
    now_ms = seconds * 1000 + microseconds // 1000

    def ask(number: int) -> None:
        slot_ms = now_ms - 27_000 + DELAY_MS * number
        while not (slot := _reserve(politeness, site, slot_ms)).starts:
            slot_ms = slot.at_ms
            sleep(slot.wait_ms / 1000)
        sleep(slot.wait_ms / 1000)
        requests.get(site.url(), timeout=10)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(ask, range(12)))

    gaps = [later - sooner for sooner, later in pairwise(site.arrivals)]
    assert len(gaps) == 11
    # Two, because a busy machine may keep one request from leaving when its turn has come.
    assert sorted(gaps)[2] > DELAY_MS / 1000 - 0.06


def _reserve(politeness: Politeness, site: Site, slot_ms: int) -> Slot:
    return politeness.reserve(site.origin, interval_ms=DELAY_MS, slot_ms=slot_ms)
