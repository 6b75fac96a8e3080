"""What strangers write into a queue ends once, whatever it is, and good messages beside it run."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import dramatiq
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import QueueState
from tests.properties.bad_input.fuzzing import (
    FACTOR,
    dumped,
    fuzzed,
    json_values,
    nested,
    odd_text,
    picked,
)
from tests.support.waiting import wait_until

UNDECODABLE, FAILED, NOT_FOUND, RUNS = "undecodable", "failed", "actor_not_found", "runs"

FIELDS = {
    "queue_name": "default",
    "actor_name": "work",
    "args": [],
    "kwargs": {},
    "options": {},
    "message_id": "id",
    "message_timestamp": 1_700_000_000_000,
}
#: Field -> values that it cannot have.
WRONG: dict[str, list[Any]] = {
    "queue_name": [None, 5, [], {}, True, "\ud800"],
    "actor_name": [None, 5, ["work"], {}, "\udfff"],
    "args": [None, 5, 1.5, True],
    "kwargs": [None, 5, [], "x", [["a", 1]]],
    "options": [None, 5, [], "x", [["a", 1]]],
    "message_id": [None, 5, [], {}, 1.5, "\ud800"],
    "message_timestamp": [None, "now", [], math.nan, math.inf, -1, 10**400],
}
#: Option -> values that dramatiq could not use in a worker.
IMPOSSIBLE: dict[str, list[Any]] = {
    "retries": ["x", None, -1, 1.5, [], 10**400, math.nan],
    "max_retries": ["x", [], math.nan, {}],
    "min_backoff": ["x", None, math.nan, math.inf, -1, 10**400],
    "max_backoff": ["x", None, math.nan, -1],
    "throws": ["x", 5, ["x"], {"a": 1}],
    "on_retry_exhausted": [5, ["x"], True],
    "max_age": ["x", math.nan, -1, []],
    "time_limit": ["x", math.nan, -1, 10**400, [1]],
    "on_success": [5, ["work"]],
    "on_failure": [5, ["work"]],
    "pipe_target": ["x", 5, [], {"actor_name": "work"}, {**FIELDS, "args": None}],
}
#: Options that mean nothing here, or nothing any more.
HARMLESS = ["eta", "lane", "priority", "ttl", "delay", "unknown", "", "traceback", "pipe_ignore"]


@dataclass(frozen=True)
class Written:
    """An entry that a stranger wrote, and how it has to end."""

    body: bytes
    end: str
    field: str = "m"


def _changed(**changes: Any) -> bytes:
    return dumped({**FIELDS, **changes})


def _deep(depth: int, opening: str, closing: str) -> Written:
    hole = _changed(args=["hole"]).decode()
    body = hole.replace('"hole"', nested(depth, opening, closing) if opening == "[" else "0")
    if opening == "{":
        body = hole.replace('"hole"', '{"a":' * depth + "0" + "}" * depth)
    # The arguments are two levels themselves: the tuple of all fields, and the list.
    return Written(body.encode(), UNDECODABLE if depth + 1 > 500 else RUNS)


garbage = st.one_of(
    st.binary(max_size=40).map(lambda body: b"\xff" + body),
    st.text(max_size=20).map(lambda text: b"!" + text.encode(errors="surrogatepass")),
    json_values.map(dumped).filter(lambda body: not body.startswith(b"{")),
    picked([b"", b"{", b"{}", b'{"args": []}', b"null", b"1e999", b"9" * 5000]),
    st.integers(501, 3_000).map(lambda depth: nested(depth).encode()),
).map(lambda body: Written(body, UNDECODABLE))
without_a_field = picked(
    [name for name in FIELDS if name not in ("message_id", "message_timestamp")]
).map(lambda name: Written(dumped({k: v for k, v in FIELDS.items() if k != name}), UNDECODABLE))
with_more_fields = odd_text.filter(lambda name: name not in FIELDS).map(
    lambda name: Written(_changed(**{name: 1}), UNDECODABLE)
)
wrong_fields = picked([(name, value) for name, values in WRONG.items() for value in values]).map(
    lambda pair: Written(_changed(**{pair[0]: pair[1]}), UNDECODABLE)
)
impossible_options = picked(
    [(name, value) for name, values in IMPOSSIBLE.items() for value in values]
).flatmap(
    lambda pair: picked(["work", "fail", "fail_for_good"]).map(
        lambda actor: Written(_changed(actor_name=actor, options={pair[0]: pair[1]}), FAILED)
    )
)
unknown_actors = (
    st.text(max_size=20)
    .filter(lambda name: name not in ("work", "fail", "fail_for_good"))
    .map(lambda name: Written(_changed(actor_name=name), NOT_FOUND))
)
failing = st.builds(
    lambda args: Written(_changed(actor_name="fail_for_good", args=args), FAILED),
    st.lists(json_values, max_size=3),
)
odd_but_good = st.builds(
    lambda args, kwargs, options, **fields: Written(
        _changed(args=args, kwargs=kwargs, options=options, **fields), RUNS
    ),
    args=st.lists(json_values, max_size=3),
    kwargs=st.dictionaries(odd_text.filter(lambda name: name != "self"), json_values, max_size=2),
    options=st.dictionaries(picked(HARMLESS), json_values, max_size=3),
    queue_name=st.text(max_size=5),
    message_id=st.text(max_size=5),
    message_timestamp=st.integers(0, 10**15) | st.floats(0, 10**15),
).filter(lambda written: b"9" * 4301 not in written.body)
deep = st.builds(
    _deep,
    st.integers(450, 1_100),
    picked(["[", "{"]),
    st.just("]"),
)
in_other_fields = st.builds(lambda body: Written(body, UNDECODABLE, "x"), st.just(_changed()))
written = st.one_of(
    garbage,
    without_a_field,
    with_more_fields,
    wrong_fields,
    impossible_options,
    unknown_actors,
    failing,
    odd_but_good,
    deep,
    in_other_fields,
)
#: Where it is written: into a lane, or among the delayed messages, of a lane that may not exist.
places = picked(["high", "default", "low", "delayed high", "delayed none"])


class Strangers:
    """Write into one queue, past every broker."""

    def __init__(self, client: redis.Redis, queue: QueueState) -> None:
        self._client = client
        self._queue = queue
        self._numbers = itertools.count()

    def write(self, entry: Written, place: str) -> str:
        """Write *entry*; how it has to end there."""
        if not place.startswith("delayed"):
            fields = {entry.field: entry.body, "more": "x"}
            self._client.xadd(self._queue.lane(place), fields)  # type: ignore[arg-type]
            return entry.end
        name = f"delivery-{next(self._numbers)}"
        packed = place.removeprefix("delayed ").encode() + b":" + entry.body
        self._client.hset(self._queue.keys.delayed_messages, name, packed)
        self._client.zadd(self._queue.keys.delayed, {name: self._queue.now_ms()})
        # The only field of a delayed message is its body.
        return RUNS if entry.field != "m" else entry.end


@pytest.fixture
def runs(make_broker: MakeBroker, make_worker: MakeWorker) -> tuple[Any, Any, Counter[str]]:
    """A broker, its worker, and how often each actor ran."""
    broker, counts = make_broker(), Counter[str]()

    @dramatiq.actor(broker=broker)
    def work(*args: Any, **kwargs: Any) -> None:
        counts["work"] += 1

    @dramatiq.actor(broker=broker)
    def fail(*args: Any, **kwargs: Any) -> None:
        counts["fail"] += 1
        raise ZeroDivisionError

    @dramatiq.actor(broker=broker, max_retries=0)
    def fail_for_good(*args: Any, **kwargs: Any) -> None:
        counts["fail_for_good"] += 1
        raise ZeroDivisionError

    @dramatiq.actor(broker=broker, priority=10)
    def good(number: int) -> None:
        counts[f"good {number}"] += 1

    return broker, make_worker(broker, threads=2), counts


@pytest.mark.slow
@pytest.mark.timeout(60 * FACTOR)
# The worker's threads use `random` while values are drawn.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
def test_whatever_strangers_write_ends_once_and_good_messages_run(
    runs: tuple[StreamsBroker, dramatiq.Worker, Counter[str]],
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    broker, worker, counts = runs
    queue = QueueState(redis_client, namespace)
    strangers, numbers = Strangers(redis_client, queue), itertools.count()
    good = broker.get_actor("good")

    @fuzzed(12, are_shrunk=False)  # each takes the time of a worker
    @given(st.lists(st.tuples(written, places), min_size=20, max_size=60))
    def check(batch: list[tuple[Written, str]]) -> None:
        counts.clear()
        redis_client.delete(queue.keys.dead)
        first, last = next(numbers), next(numbers)
        good.send(first)
        ends = Counter(strangers.write(entry, place) for entry, place in batch)
        good.send(last)

        broker.join("default", timeout=20_000)
        wait_until(lambda: not queue.pending(), message="nothing is pending")

        letters = queue.dead()
        assert all(thread.is_alive() for thread in [*worker.workers, *worker.consumers.values()])
        assert (counts[f"good {first}"], counts[f"good {last}"]) == (1, 1)
        assert (counts["work"], counts["fail"]) == (ends[RUNS], 0)
        assert Counter(letter["reason"].decode() for letter in letters) == Counter(
            {end: count for end, count in ends.items() if end != RUNS}
        )
        assert {letter["deliveries"] for letter in letters} <= {b"1"}
        assert all(letter["error"] for letter in letters)

    check()


def test_option_that_is_impossible_is_named_in_the_dead_letter(
    runs: tuple[StreamsBroker, dramatiq.Worker, Counter[str]],
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    broker, _, counts = runs
    queue = QueueState(redis_client, namespace)

    queue.add_raw({"m": json.dumps({**FIELDS, "options": {"throws": "ValueError"}})})

    broker.join("default", timeout=10_000)
    [letter] = queue.dead()
    assert letter["error"] == (
        b"SkipMessage: throws='ValueError' is not possible:"
        b" throws must be an exception class, or a tuple of them."
    )
    assert counts["work"] == 0
