"""What `Idempotency` refuses before anything is sent, and where it may stand."""

from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import AgeLimit, Callbacks, Pipelines, Retries, TimeLimit
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend

from dramatiq_streams import InvalidIdempotency, NoFencingToken, StreamsBroker
from dramatiq_streams.middleware import (
    Idempotency,
    current_fencing_token,
    fencing_token,
    lease_is_lost,
)
from dramatiq_streams.middleware.idempotency.deferring import wait_ms

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ttl": 0}, "ttl=0"),
        ({"ttl": 29_999}, "from 30000"),
        ({"ttl": True}, "ttl=True"),
        ({"ttl": 1e9}, "ttl="),
        ({"lease": 599, "masters": ["redis://localhost:1"]}, "lease=599"),
        ({"lease": 599}, "lease=599"),
        ({"lease": "15s"}, "lease='15s'"),
        ({"on_duplicate": "drop"}, "skip, replay, raise"),
        ({"on_busy": "run"}, "defer, skip, wait"),
        ({"on_unavailable": "skip"}, "run, defer, fail"),
        ({"on_unavailable": None}, "on_unavailable=None"),
        ({"key_prefix": "a:b"}, "key_prefix='a:b'"),
        ({"key_prefix": ""}, "key_prefix=''"),
        ({"masters": []}, "masters=[]"),
        ({"masters": "redis://localhost"}, "masters='redis://localhost'"),
        ({"masters": ["redis://localhost:1"] * 2}, "twice"),
        ({"masters": [1]}, "1"),
    ],
)
def test_option_that_is_not_possible_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidIdempotency) as raised:
        Idempotency(**options)

    assert named in str(raised.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"idempotency_key": "{link}"}, "'link'"),
        ({"idempotency_key": 5}, "idempotency_key=5"),
        ({"idempotency_key": True, "idempotency_ttl": 1_000}, "idempotency_ttl=1000"),
        # Not longer than two leases of the broker.
        ({"idempotency_key": True, "idempotency_ttl": 2 * HOUR_MS - 1}, "from 7200000"),
        ({"idempotency_key": True, "idempotency_interrupt": "yes"}, "True or False"),
        ({"idempotency_key": True, "idempotency_interrupt": 1}, "idempotency_interrupt=1"),
        ({"idempotency_key": True, "idempotency_interrupt": 0.0}, "idempotency_interrupt=0.0"),
    ],
)
def test_actor_with_an_option_that_is_not_possible_is_not_declared(
    options: dict[str, Any], named: str
) -> None:
    broker = StreamsBroker(middleware=[Idempotency()], lease=HOUR_MS)

    with pytest.raises(InvalidIdempotency) as raised:
        dramatiq.actor(broker=broker, actor_name="fetch", **options)(lambda url: None)

    assert named in str(raised.value)
    assert broker.actors == {}


@pytest.mark.parametrize(
    "options",
    [
        {"idempotency_key": ""},
        {"idempotency_key": 5},
        {"idempotency_key": 1},
        {"idempotency_key": ["x"]},
        {"idempotency_ttl": 0},
        {"idempotency_ttl": -5},
        {"idempotency_ttl": "x"},
        {"idempotency_ttl": True},
        # Not longer than two leases of the broker, as for an actor.
        {"idempotency_ttl": 2 * HOUR_MS - 1},
        {"idempotency_interrupt": "yes"},
        {"idempotency_interrupt": 1},
    ],
)
def test_message_with_an_option_that_is_not_possible_is_not_sent(options: dict[str, Any]) -> None:
    # Nobody listens there: what is not refused fails otherwise.
    broker = StreamsBroker(
        middleware=[Idempotency(), Pipelines()],
        lease=HOUR_MS,
        url="redis://127.0.0.1:1",
        enqueue_timeout=0,
    )
    fetch = dramatiq.actor(broker=broker, actor_name="fetch")(lambda url: None)
    ((name, value),) = options.items()
    wrong = fetch.message("u").copy(options=options)

    for send in (
        lambda: fetch.send_with_options(args=("u",), **options),
        lambda: broker.enqueue_many([fetch.message("v"), wrong]),
        dramatiq.pipeline([fetch.message("v"), wrong], broker=broker).run,
    ):
        with pytest.raises(InvalidIdempotency) as raised:
            send()
        assert f"{name}={value!r}" in str(raised.value)


@pytest.mark.parametrize("later", [Retries, Pipelines, Callbacks, TimeLimit])
def test_worker_does_not_start_when_it_stands_behind_what_must_follow_it(
    later: type[dramatiq.Middleware],
) -> None:
    broker = StreamsBroker(middleware=[AgeLimit(), later(), Idempotency()])

    with pytest.raises(InvalidIdempotency, match=f"before={later.__name__}"):
        broker.emit_before("worker_boot", None)


def test_worker_does_not_start_when_results_would_be_stored_after_a_key_is_done() -> None:
    results = Results(backend=StubBackend())
    broker = StreamsBroker(middleware=[results, Idempotency(), Retries()])

    with pytest.raises(InvalidIdempotency, match="before=Results"):
        broker.emit_before("worker_boot", None)


@pytest.mark.parametrize(
    ("middleware", "named"),
    [
        ([Idempotency(on_duplicate="replay"), Retries()], "Results"),
        ([Idempotency(), Idempotency(key_prefix="b")], "one Idempotency"),
        ([Idempotency(ttl=2 * HOUR_MS - 1)], "ttl=7199999"),
    ],
)
def test_worker_does_not_start_with_what_cannot_work(
    middleware: list[dramatiq.Middleware], named: str
) -> None:
    broker = StreamsBroker(middleware=middleware, lease=HOUR_MS)

    with pytest.raises(InvalidIdempotency, match=named):
        broker.emit_before("worker_boot", None)


def test_there_is_no_token_outside_of_an_actor_that_has_a_key() -> None:
    with pytest.raises(NoFencingToken):
        current_fencing_token()

    assert not lease_is_lost()


def test_test_of_an_actor_can_give_it_a_token() -> None:
    with fencing_token(7):
        assert current_fencing_token() == 7

    with pytest.raises(NoFencingToken):
        current_fencing_token()


@pytest.mark.parametrize(
    ("left_ms", "deferrals", "least", "most"),
    [
        (15_000, 0, 250, 318),
        (15_000, 3, 2_000, 2_505),
        (15_000, 10, 15_000, 18_755),
        (15_000, 10**6, 15_000, 18_755),
        (10**9, 50, 60_000, 75_005),
        (40, 9, 40, 55),
        (0, 0, 6, 6),
    ],
)
def test_wait_grows_up_to_the_end_of_the_lease_and_never_ends_just_before_it(
    left_ms: int, deferrals: int, least: int, most: int
) -> None:
    waits = [wait_ms(left_ms, deferrals) for _ in range(50)]

    assert least <= min(waits) <= max(waits) <= most
    assert len(set(waits)) > 1 or most - least < 20
