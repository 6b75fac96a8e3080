"""The account of a soak finds what is lost, doubled or unexplained, and nothing else."""

from typing import Any

import pytest

from tests.soak.account import Account, account_of
from tests.soak.disturbances import Disturbances
from tests.soak.journal import Note
from tests.soak.schedule import LEASE, schedule
from tests.soak.stories import stories_of

SENT = [(0.0, "plain.1", "sending", {"ids": ["m"], "kind": "work"}), (0.1, "plain.1", "sent", {})]


def run(who: str, started: float, ended: float | None = None, *, kind: str = "work") -> list[Any]:
    """The notes of an actor that runs, and returns if it has an end."""
    found = [(started, who, "started", {"id": "m", "kind": kind, "retries": 0})]
    return found if ended is None else [*found, (ended, who, "done", {"id": "m", "retries": 0})]


def dead(at: float, reason: str) -> Any:
    """The note of a dead letter."""
    facts = {"id": "m", "died": at, "reason": reason, "error": "", "is_removed": False}
    return (99.0, "soak", "dead", facts)


def account(*notes: Any) -> Account:
    """The account of these notes; they are about one message, `m`."""
    heard = [
        Note(at, who, event, {"ids": ["m"], **facts} if event == "sent" else facts)
        for at, who, event, facts in sorted(notes, key=lambda note: note[0])
    ]
    return account_of(stories_of(heard), Disturbances.of(heard))


def wrongs(found: Account) -> list[str]:
    return [text for _, text in found.wrongs]


def test_message_that_ran_once_is_acked() -> None:
    found = account(*SENT, *run("w0.1", 1, 2))

    assert found.total("acked", outcome="sent") == 1
    assert wrongs(found) == []
    assert found.explained == []


def test_message_that_never_ran_is_lost() -> None:
    assert wrongs(account(*SENT)) == ["is lost"]


def test_message_in_doubt_may_be_absent_and_may_be_there() -> None:
    sending = SENT[0]

    assert account(sending).total("absent") == 1
    assert account(sending, *run("w0.1", 1, 2)).total("acked") == 1
    assert wrongs(account(sending)) == []


def test_message_that_was_refused_must_not_run() -> None:
    refused = (0.1, "plain.1", "unsent", {"ids": ["m"]})

    found = account(SENT[0], refused, *run("w0.1", 1, 2))

    assert wrongs(found) == ["was not sent, as its sender was told, and is acked"]


def test_second_run_is_wrong_when_nothing_explains_it() -> None:
    found = account(*SENT, *run("w0.1", 1, 2), *run("w1.1", 3, 4))

    assert wrongs(found) == ["was started again by w0.1: nothing explains it"]


@pytest.mark.parametrize(
    ("faults", "is_explained"),
    [
        pytest.param([(2.5, "w0.1", "killed", {})], True, id="its process was killed"),
        pytest.param([(2.5, "w1.1", "killed", {})], False, id="another process was killed"),
        pytest.param([(0.5, "w0.1", "killed", {})], False, id="killed before"),
        pytest.param([(8.0, "w0.1", "killed", {})], False, id="killed when it was settled"),
        pytest.param(
            [(1.5, "w0.1", "stopped", {}), (1.5 + LEASE, "w0.1", "continued", {})],
            True,
            id="it stood still for a lease",
        ),
        pytest.param(
            [(1.5, "w0.1", "stopped", {}), (1.5 + LEASE / 2, "w0.1", "continued", {})],
            False,
            id="it stood still for half a lease",
        ),
        pytest.param(
            [(1.5 + LEASE, "w0.1", "starved", {"since": 1.5})], True, id="the machine was too busy"
        ),
    ],
)
def test_second_run_has_to_be_explained_by_its_own_process(
    faults: list[Any], is_explained: bool
) -> None:
    found = account(*SENT, *run("w0.1", 1, 2), *run("w1.1", 9, 10), *faults)

    assert bool(found.explained) is is_explained
    assert bool(found.wrongs) is not is_explained


@pytest.mark.parametrize(
    ("places", "is_explained"), [(None, True), (["w0"], True), (["w1"], False)]
)
def test_outage_explains_it_only_where_it_was(places: list[str] | None, is_explained: bool) -> None:
    facts = {"what": "connections were refused", "places": places}
    outage = [(1.0, "soak", "disturbed", facts), (2.9, "soak", "undisturbed", facts)]

    found = account(*SENT, *run("w0.1", 1, 2), *run("w1.1", 3, 4), *outage)

    assert bool(found.explained) is is_explained
    assert bool(found.wrongs) is not is_explained


def test_lost_reply_explains_a_second_copy_of_a_spooled_message() -> None:
    doubt = (0.05, "plain.1", "spooling", {"is_in_doubt": True})

    found = account(*SENT, doubt, *run("w0.1", 1, 2), *run("w1.1", 3, 4))

    assert wrongs(found) == []
    assert len(found.explained) == 1


def test_message_may_not_run_and_be_dead_too() -> None:
    found = account(*SENT, *run("w0.1", 1, 2), dead(3.0, "failed"))

    assert found.total("dead") == 1
    assert wrongs(found) == [
        "is dead before its last retry",
        "had returned and is dead by w0.1: nothing explains it",
    ]


def test_message_may_not_have_two_dead_letters() -> None:
    deaths = [dead(3.0, "max_deliveries"), dead(4.0, "max_deliveries")]
    killed: Any = (1.0, "w0.1", "killed", {})

    assert wrongs(account(*SENT, killed, *deaths)) == ["has several dead letters"]


def test_message_is_not_condemned_where_nobody_died() -> None:
    found = account(*SENT, dead(3.0, "max_deliveries"))

    assert wrongs(found) == ["is dead for the death of workers, and none has died"]


def test_cancelled_message_must_not_run_afterwards() -> None:
    cancelled = [
        (1.0, "soak", "cancelling", {"ids": ["m"]}),
        (2.0, "soak", "cancelled", {"id": "m", "outcome": "cancelled"}),
    ]

    assert account(*SENT, *cancelled).total("cancelled") == 1
    assert wrongs(account(*SENT, *cancelled)) == []
    assert wrongs(account(*SENT, *cancelled, *run("w0.1", 3, 4))) == [
        "was run after it had been cancelled"
    ]


def test_refused_message_may_be_asked_for_in_vain() -> None:
    refused = (0.1, "plain.1", "unsent", {"ids": ["m"]})
    cancelling = (1.0, "soak", "cancelling", {"ids": ["m"]})

    found = account(SENT[0], refused, cancelling)

    assert found.total("absent") == 1
    assert wrongs(found) == []


def test_worker_that_ends_by_itself_is_noticed() -> None:
    gone = Note(3.0, "w0.1", "gone", {"code": 1})

    assert Disturbances.of([gone]).unexplained == ["w0.1 ended by itself: 1"]


def test_schedule_is_that_of_its_seed() -> None:
    faults = schedule(7, 600)

    assert faults == schedule(7, 600) != schedule(8, 600)
    assert {fault.name for fault in faults} >= {"kill_worker", "flush_all", "refuse", "cancel"}
