"""A crowd of workers and senders under a random schedule of faults, and the account at the end."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dramatiq.logging import get_logger

from dramatiq_streams.keys import queue_keys
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.waiting import wait_until

from .account import Account, account_of
from .burials import note_dead_letter
from .crew import LANES, QUEUES, SPOOLER, Crew, Settings
from .crowd import THREADS, Crowd, Place
from .disturbances import Disturbances
from .injector import Injector
from .journal import Note
from .meters import METERS, metered
from .people import People
from .schedule import Fault, schedule
from .sender import STOP
from .stories import stories_of

_SENDERS_SECONDS = 90.0
_DRAIN_SECONDS = 120.0

_logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a soak is to be; `rate` is in messages per second, of each of two senders."""

    seconds: float
    seed: int
    processes: int = 4
    rate: float = 12.0

    def faults(self) -> list[Fault]:
        """The faults, by time: the same for the same seed."""
        return schedule(self.seed, self.seconds)


@dataclass(frozen=True, slots=True)
class Result:
    """What a soak was."""

    plan: Plan
    account: Account
    #: The state of each queue at the end, as operators see it.
    queues: list[dict[str, Any]]
    metrics: dict[str, float]
    #: Whatever is not about one message: a process that ended by itself, a queue that is not empty.
    complaints: list[str]
    notes: list[Note]


class Soak:
    """One soak in *directory*."""

    def __init__(self, plan: Plan, server: Server, directory: Path) -> None:
        self._plan = plan
        self._server = server
        self._directory = directory
        self._settings = Settings(
            who="soak",
            url=server.url,
            namespace=f"soak-{secrets.token_hex(4)}",
            directory=str(directory),
            seed=plan.seed,
            rate=plan.rate,
        )
        self._journal = self._settings.journal()
        self._complaints: list[str] = []

    def run(self) -> Result:
        """Send, work and disturb; then let all of it end, and count."""
        people = People(self._server.url, self._settings.namespace, self._directory, self._journal)
        with self._crowd() as crowd:
            injector = Injector(
                self._server, crowd, people, self._journal, self._settings.namespace
            )
            crowd.start()
            injector.follow(self._plan.faults(), seconds=self._plan.seconds)
            self._journal.note("no more faults")
            (self._directory / STOP).touch()
            self._try(lambda: crowd.stop_senders(timeout=_SENDERS_SECONDS))
            self._try(self._drain)
            crowd.end()
        self._complaints += [*injector.complaints, *crowd.complaints]
        return self._result(people)

    @contextmanager
    def _crowd(self) -> Iterator[Crowd]:
        (self._directory / METERS).mkdir()
        spool = str(self._directory / "spool")
        names = [f"w{number}" for number in range(self._plan.processes)]
        # Two are neighbours, each of the others is alone on its host.
        hosts = {name: f"host of {name}" for name in names[2:]}
        places = [self._place(name, host=hosts.get(name, "")) for name in names]
        places += [self._place("plain"), self._place(SPOOLER, spool=spool)]
        crowd = Crowd(places, self._journal, self._directory)
        try:
            yield crowd
        finally:
            crowd.close()

    def _place(self, name: str, **settings: Any) -> Place:
        proxy = FaultyProxy(self._server)
        proxy.accept()
        is_worker = name.startswith("w")
        environment = {"dramatiq_restart_delay": "300"}
        if is_worker:
            environment["PROMETHEUS_MULTIPROC_DIR"] = str(self._directory / METERS)
        return Place(
            name, replace(self._settings, url=proxy.url, **settings), proxy, is_worker, environment
        )

    def _try(self, step: Callable[[], None]) -> None:
        """Take a step that fails when the broker does: the account has to be made all the same."""
        try:
            step()
        except (AssertionError, RuntimeError) as error:
            self._complaints.append(str(error))

    def _drain(self) -> None:
        crew = Crew(replace(self._settings, who="drain").broker(), self._journal)
        queues = crew.broker._process.queues
        # Twice: what runs in the second queue may have sent to the first one meanwhile.
        try:
            wait_until(
                lambda: not any(queues.size(queue) for queue in QUEUES * 2),
                timeout=_DRAIN_SECONDS,
                interval=0.1,
                message="all queues are empty",
            )
        finally:
            crew.broker.close()

    def _note_letters(self) -> None:
        """Note the dead letters that are there."""
        for queue in QUEUES:
            dead = queue_keys(self._settings.namespace, queue, LANES).dead
            entries: Any = self._server.client().xrange(dead)
            for entry in entries:
                note_dead_letter(self._journal, queue, entry, is_removed=False)

    def _result(self, people: People) -> Result:
        self._note_letters()
        notes = self._journal.notes()
        disturbances = Disturbances.of(notes)
        account = account_of(stories_of(notes), disturbances)
        queues: list[dict[str, Any]] = []
        self._try(lambda: queues.extend(people.look()))
        metrics = metered(self._directory)
        complaints = [*self._complaints, *disturbances.unexplained]
        complaints += _wrong_counts(account, queues, disturbances)
        complaints += _wrong_metrics(account, metrics, notes)
        return Result(self._plan, account, queues, metrics, complaints, notes)


def _wrong_counts(
    account: Account, queues: list[dict[str, Any]], disturbances: Disturbances
) -> Iterator[str]:
    """Where the broker's own counts differ from ours."""
    for queue in queues:
        for name in ("ready", "pending", "delayed"):
            if queue[name]:
                yield f"queue {queue['queue']} has {queue[name]} {name} messages at the end"
        if queue["paused_for_ms"] is not None:
            yield f"queue {queue['queue']} is paused at the end"
    dead = sum(queue["dead"] for queue in queues)
    if queues and dead != account.kept:
        yield f"{dead} dead letters are counted, and {account.kept} are there"
    cancelled = sum(queue["cancelled"] for queue in queues)
    if not disturbances.flushes and not account.cancelled[0] <= cancelled <= account.cancelled[1]:
        yield f"{cancelled} messages are counted as cancelled, and there are {account.cancelled}"


def _wrong_metrics(account: Account, metrics: dict[str, float], notes: list[Note]) -> Iterator[str]:
    """Where what the workers counted differs from what they noted."""
    runs = account.runs
    deaths = sum(note.event in ("killed", "gone") for note in notes)
    deliveries = metrics["dramatiq_streams_deliveries_total"]
    # A worker may be killed between the two, with each of its threads.
    if not runs <= deliveries <= runs + THREADS * deaths:
        yield f"{deliveries:.0f} deliveries are counted, and {runs} runs are noted"
