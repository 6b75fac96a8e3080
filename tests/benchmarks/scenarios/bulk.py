"""What `enqueue_many` gains over sending one by one, and what is left of it to dramatiq."""

import time

import dramatiq
from dramatiq.brokers.stub import StubBroker

from tests.benchmarks.contest import Contestant, Scenario, Target
from tests.benchmarks.place import Place
from tests.benchmarks.producer import Plan
from tests.benchmarks.sending import send_and_check
from tests.benchmarks.systems.interface import URL

_ALONE = "dramatiq's message and its JSON alone (ceiling)"
_ONE_BY_ONE = "StreamsBroker, one by one"
_MANY = "StreamsBroker, enqueue_many"


def _one_by_one(place: Place) -> dict[str, float]:
    plan = Plan(count=place.messages // 2, warm_up=200)
    return {"messages/s": send_and_check(place, "ours", plan).rate}


def _many(place: Place) -> dict[str, float]:
    plan = Plan(count=place.messages * 2, warm_up=200, how="many")
    return {"messages/s": send_and_check(place, "ours", plan).rate}


def _alone(place: Place) -> dict[str, float]:
    @dramatiq.actor(broker=StubBroker())
    def note(url: str, number: int) -> None:
        raise NotImplementedError("messages are made, and sent nowhere")

    count = place.messages * 2
    began = time.monotonic()
    bodies = [note.message(URL, number).encode() for number in range(count)]
    return {"messages/s": len(bodies) / (time.monotonic() - began)}


SCENARIO = Scenario(
    name="bulk",
    title="Enqueue many at once",
    contestants=(
        Contestant(_MANY, "ours", _many),
        Contestant(_ONE_BY_ONE, "ours", _one_by_one),
        Contestant(_ALONE, "stub", _alone),
    ),
    metrics={"messages/s": "of one producer in one thread, making the messages included"},
    compared="messages/s",
    reference=_MANY,
    targets=(Target("messages/s", _MANY, 8, over=_ONE_BY_ONE),),
    notes="The others have nothing of the kind; their rate is that of sending one by one.\n"
    "The ceiling sends nothing: no broker for dramatiq can be faster than its messages are made, "
    "and the faster one by one is, the less is left to gain.\n"
    "The last section says whose code the rest is.",
)
