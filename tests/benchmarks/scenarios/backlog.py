"""Whether a long queue makes anything slower."""

from collections.abc import Iterator
from typing import Any

import redis
from dramatiq import Message

from dramatiq_streams.keys import MESSAGE_FIELD, queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES
from tests.benchmarks.contest import Contestant, Measured, Scenario, Target
from tests.benchmarks.latency import waits_ms
from tests.benchmarks.ledger import Start, check_each_once
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.spread import quantile
from tests.benchmarks.trial import Trial

_SHORT, _LONG = "10,000 queued", "1,000,000 queued"
_AT_ONCE = 100_000
#: Of a long queue no more is run: what is left is read and checked.
_MEASURED = 100_000
_FIRST_HIGH = 10_000_000
#: Seconds before the end of a backlog, in which it is none any more.
_END = 0.1


def _contestant(label: str, messages: int) -> Contestant:
    def measure(place: Place) -> Measured:
        count = min(messages, 100_000) if place.is_quick else messages
        with place.trial("ours") as trial:
            return _measure(trial, count)

    return Contestant(label, "ours", measure, most_rounds=2)


def _measure(trial: Trial, count: int) -> Measured:
    for first in range(0, count, _AT_ONCE):
        trial.produce(Plan(count=min(count - first, _AT_ONCE), how="many", first=first))
    high = Plan(count=150, first=_FIRST_HIGH, lane="high", gap=(0.005, 0.015))
    producing = trial.start_producing(high, barrier=True)
    with trial.workers(in_process=True, barrier=True, beside=1):
        trial.let_go()
        produced = producing.result()
        trial.wait_for(min(count, _MEASURED) + high.count, timeout=300, interval=0.2)
    starts = trial.starts()
    check_each_once([*starts, *_left(trial)], {*range(count), *produced.numbers})
    backlog = [one for one in starts if one.number < _FIRST_HIGH][:_MEASURED]
    rate = (len(backlog) - 1) / (backlog[-1].at - backlog[0].at)
    sent_meanwhile = {
        number
        for number, at in produced.sent_at.items()
        if backlog[0].at < at < backlog[-1].at - _END
    }
    waits = waits_ms(produced, (one for one in starts if one.number in sent_meanwhile))
    return {
        "messages/s": rate,
        "high p50 ms": quantile(waits, 0.5),
        "high p99 ms": quantile(waits, 0.99),
        "queued": count,
    }


def _left(trial: Trial) -> Iterator[Start]:
    """What is still queued after the workers have been stopped, as if it had started."""
    assert trial.server is not None
    client = trial.server.client()
    for lane in queue_keys("dramatiq-streams", trial.queue, tuple(DEFAULT_LANES)).lanes:
        position = "-"
        while entries := _entries(client, lane, position):
            position = f"({entries[-1][0].decode()}"
            for _, fields in entries:
                message = Message.decode(fields[MESSAGE_FIELD])
                yield Start(message.args[1], 0.0, 0)


def _entries(client: redis.Redis, lane: str, position: str) -> list[Any]:
    found: list[Any] = client.xrange(lane, position, count=10_000)  # type: ignore[assignment]
    return found


SCENARIO = Scenario(
    name="backlog",
    title="What a backlog costs",
    contestants=(_contestant(_LONG, 1_000_000), _contestant(_SHORT, 10_000)),
    metrics={
        "messages/s": "of the first 100,000",
        "high p50 ms": "of messages sent to the high lane meanwhile",
        "high p99 ms": "the same",
        "queued": "",
    },
    targets=(
        Target("messages/s", _LONG, 0.9, over=_SHORT),
        Target("high p50 ms", _LONG, 1.1, over=_SHORT, at_least=False),
    ),
    notes=(
        "1 process with 8 threads; beside it, messages go to the high lane, 5 to 15 ms apart.\n"
        "What is left after the first 100,000 is read from the streams, and checked."
    ),
)
