"""What every other script does with the unique key of a message: frees it, or keeps it."""

from collections.abc import Callable

import pytest

from dramatiq_streams.keys import RELEASED
from tests.scripts.reading import read
from tests.scripts.shard import Shard
from tests.scripts.test_ack import ack
from tests.scripts.test_cancel import cancel
from tests.scripts.test_cancel_delayed import cancel_delayed
from tests.scripts.test_hand_over import hand_over
from tests.scripts.test_purge import purge
from tests.scripts.test_redrive import redrive
from tests.scripts.test_reject import reject
from tests.scripts.test_release_dead import release_dead
from tests.scripts.test_screen import screen
from tests.scripts.test_take_in import take_in
from tests.scripts.test_tend import LEASE_MS, recover

FREED = {"k": "t1-"}
KEPT = {"k": "t1:m1"}
OF_ANOTHER = {"k": "t2:m2"}


def deliver(shard: Shard, consumer: str = "me", *, deliveries: int = 1, idle_ms: int = 0) -> None:
    """Seed the entry 1-0 of the lane `high`, which has the key `k`."""
    reservation = shard.reserve("k", "t1", "m1")
    shard.deliver(
        "high", "1-0", consumer, deliveries=deliveries, idle_ms=idle_ms, reservation=reservation
    )


def cancel_and_screen(shard: Shard) -> None:
    cancel(shard, "high", "1-0")
    screen(shard, [(1, "1-0", 1)])


def cancel_and_read(shard: Shard) -> None:
    cancel(shard, "high", "1-0")
    shard.redeliver("high", "1-0", RELEASED, deliveries=1)
    read(shard)


#: All that ends the delivery of an entry that this consumer, "me", holds.
ENDS: dict[str, Callable[[Shard], object]] = {
    "ack": lambda shard: ack(shard, (1, "1-0", 1, 1)),
    "read": lambda shard: read(shard, budget=0, acks=[(1, "1-0", 1, 1)]),
    "reject": lambda shard: reject(shard, is_unique=1),
    "reject as it is": lambda shard: reject(shard, message=b""),
    "screen": cancel_and_screen,
    "read cancelled": cancel_and_read,
}
each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())


@each_end
def test_key_is_freed_as_the_message_ends(shard: Shard, end: Callable[[Shard], object]) -> None:
    deliver(shard)

    end(shard)

    assert shard.reserved() == FREED
    assert shard.client.xlen(shard.lane("high")) == 0


@each_end
def test_key_that_another_message_has_by_now_stays_its_own(
    shard: Shard, end: Callable[[Shard], object]
) -> None:
    deliver(shard)
    shard.reserve("k", "t2", "m2")

    end(shard)

    assert shard.reserved() == OF_ANOTHER


@pytest.mark.parametrize("name", ["ack", "read", "reject"])
def test_what_is_no_longer_held_frees_nothing(shard: Shard, name: str) -> None:
    deliver(shard, "other")

    ENDS[name](shard)

    assert shard.reserved() == KEPT


@each_end
def test_key_is_freed_when_memory_is_full(
    fillable_shard: Shard, end: Callable[[Shard], object]
) -> None:
    deliver(fillable_shard)
    if end in (cancel_and_screen, cancel_and_read):
        cancel(fillable_shard, "high", "1-0")
        fillable_shard.fill_memory()
        if end is cancel_and_screen:
            screen(fillable_shard, [(1, "1-0", 1)])
        else:
            fillable_shard.redeliver("high", "1-0", RELEASED, deliveries=1)
            read(fillable_shard)
    else:
        fillable_shard.fill_memory()
        end(fillable_shard)

    assert fillable_shard.reserved() == FREED


def test_ack_without_the_mark_looks_for_no_key(shard: Shard) -> None:
    deliver(shard)

    ack(shard, (1, "1-0", 1))

    assert shard.reserved() == KEPT


@pytest.mark.parametrize("give_up", [recover, release_dead], ids=["recover", "release_dead"])
def test_key_of_a_poison_message_is_freed_and_its_letter_knows_it(
    shard: Shard, give_up: Callable[..., object]
) -> None:
    deliver(shard, "gone", deliveries=5, idle_ms=LEASE_MS)

    give_up(shard, max_deliveries=5)

    assert shard.reserved() == FREED
    assert [letter[b"u"] for letter in shard.stored(shard.keys.dead)] == [b"t1:k"]


@pytest.mark.parametrize("free", [recover, release_dead], ids=["recover", "release_dead"])
def test_key_of_a_message_that_is_delivered_again_stays(
    shard: Shard, free: Callable[..., object]
) -> None:
    deliver(shard, "gone", deliveries=1, idle_ms=LEASE_MS)

    free(shard, max_deliveries=5)

    assert shard.reserved() == KEPT


@pytest.mark.parametrize("message", [b"body", b""])
def test_letter_of_a_rejected_message_knows_its_key(shard: Shard, message: bytes) -> None:
    deliver(shard)

    reject(shard, message=message, is_unique=1)

    [letter] = shard.stored(shard.keys.dead)
    assert letter[b"u"] == b"t1:k"
    assert letter[b"m"] == message or b"high 1-0"


@pytest.mark.parametrize("delay", [-1, 600_000])
def test_retry_has_the_key_of_its_original(shard: Shard, delay: int) -> None:
    deliver(shard)

    hand_over(shard, delay=delay, is_unique=1)

    assert shard.reserved() == KEPT
    if delay < 0:
        assert shard.stored(shard.lane("low")) == [{b"m": b"retry", b"u": b"t1:k"}]
    else:
        assert shard.client.hvals(shard.keys.delayed_messages) == [b"low/4:t1:kretry"]


@pytest.mark.parametrize("delay", [-1, 600_000])
def test_retry_of_a_message_without_a_key_has_none(shard: Shard, delay: int) -> None:
    shard.deliver("high", "1-0", "me")

    hand_over(shard, delay=delay, is_unique=1)

    if delay < 0:
        assert shard.stored(shard.lane("low")) == [{b"m": b"retry"}]
    else:
        assert shard.client.hvals(shard.keys.delayed_messages) == [b"low:retry"]


def test_delayed_message_takes_its_key_to_its_lane(shard: Shard) -> None:
    reservation = shard.reserve("k:/", "t1", "m1")
    shard.delay("t1", f"low/{len(reservation)}:{reservation}a:body/1:".encode(), 1_000)

    reply = read(shard)

    assert reply.forwarded == 1
    assert [entry[3] for entry in reply.entries] == ["a:body/1:"]
    assert shard.stored(shard.lane("low")) == [{b"m": b"a:body/1:", b"u": b"t1:k:/"}]


def test_cancelled_message_that_waits_frees_its_key_at_once(shard: Shard) -> None:
    shard.wait_unique("high", "1-0", shard.reserve("k", "t1", "m1"))

    cancel(shard, "high", "1-0")

    assert shard.reserved() == FREED


def test_cancelled_message_that_a_worker_holds_keeps_its_key(shard: Shard) -> None:
    deliver(shard, "other")

    cancel(shard, "high", "1-0")

    assert shard.reserved() == KEPT


def test_cancelled_delayed_message_frees_its_key(shard: Shard) -> None:
    reservation = shard.reserve("k", "t1", "m1")
    shard.delay("t1", f"low/{len(reservation)}:{reservation}body", 10**13)

    cancel_delayed(shard, "t1")

    assert shard.reserved() == FREED


def test_purge_forgets_all_keys(shard: Shard) -> None:
    deliver(shard)

    purge(shard)

    assert shard.reserved() == {}
    assert shard.client.exists(shard.keys.unique) == 0


def bury(shard: Shard) -> None:
    shard.client.xadd(shard.keys.dead, {"m": "dead", "reason": "failed", "u": "t1:k"}, id="1-0")


@pytest.mark.parametrize("record", ["", "t1-", "t3:m3"], ids=["forgotten", "freed", "ended"])
def test_redriven_message_has_its_key_again(shard: Shard, record: str) -> None:
    bury(shard)
    if record:
        token, state, message_id = record[:2], record[2], record[3:]
        shard.reserve("k", token, message_id, ends_in_ms=5_000 if state == "-" else -1)
        shard.client.hset(shard.keys.unique_messages, "k", record)

    done = redrive(shard, "1-0", token="t2")

    assert done == [1, b""]
    assert shard.reserved() == {"k": "t2:m1"}
    assert shard.stored(shard.lane("low")) == [{b"m": b"dead", b"u": b"t2:k"}]


def test_letter_whose_key_another_message_has_stays(shard: Shard) -> None:
    bury(shard)
    shard.reserve("k", "t3", "m3")
    before = shard.lines()

    done = redrive(shard, "1-0")

    assert done == [-1, b"m3"]
    assert not shard.changes_since(before).gone | shard.changes_since(before).came


def test_spooled_message_has_its_key_when_it_is_taken_in(shard: Shard) -> None:
    taken = take_in(shard, 7, delivery="t1", unique_key="k", message_id="m1")

    assert taken == 1
    assert shard.reserved() == KEPT
    assert shard.stored(shard.lane("low")) == [{b"m": b"body", b"u": b"t1:k"}]


def test_spooled_message_whose_key_another_one_has_is_dropped_and_its_row_noted(
    shard: Shard,
) -> None:
    shard.reserve("k", "t2", "m2")

    taken = take_in(shard, 7, delivery="t1", unique_key="k", message_id="m1")

    assert taken == 2
    assert shard.reserved() == OF_ANOTHER
    assert shard.stored(shard.lane("low")) == []
    assert take_in(shard, 7) == 0


def test_spooled_message_that_had_arrived_before_is_not_there_twice(shard: Shard) -> None:
    shard.wait_unique("low", "1-0", shard.reserve("k", "t1", "m1"))

    taken = take_in(shard, 7, delivery="t1", unique_key="k", message_id="m1")

    assert taken == 1
    assert shard.client.xlen(shard.lane("low")) == 1
