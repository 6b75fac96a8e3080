"""Carries out the faults of a schedule, and notes when each began and was over."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

import dramatiq
import redis
from dramatiq.logging import get_logger
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from dramatiq_streams.calls import script_hash
from dramatiq_streams.keys import queue_keys
from tests.support.servers import Server

from .burials import note_dead_letter
from .crew import LANES, QUEUES
from .crowd import Crowd, Place, send_signal
from .journal import Journal
from .people import People
from .schedule import TRACKS, Fault

T = TypeVar("T")

_SCRIPTS = (
    *("ack", "begin", "delay", "extend", "hand_over", "read", "reject"),
    *("release", "release_dead", "release_unheld", "take_in", "tend"),
)
_PATTERNS = (
    *(b"^EVALSHA " + script_hash(name).encode() for name in _SCRIPTS),
    *(b"^XADD ", b"^XREADGROUP ", b"^XREAD ", b"", b""),
)


class Injector:
    """One thread per track."""

    def __init__(
        self, server: Server, crowd: Crowd, people: People, journal: Journal, namespace: str
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        #: What could not be carried out, though it should.
        self.complaints: list[str] = []
        self._server = server
        self._crowd = crowd
        self._people = people
        self._journal = journal
        self._namespace = namespace
        self._ending = threading.Event()
        self._deeds: dict[str, Callable[[Fault], object]] = {
            "kill_worker": lambda fault: crowd.kill(self._worker(fault)),
            "kill_command": lambda fault: crowd.kill(self._worker(fault), whole_command=True),
            "stop_briefly": self._stop_worker,
            "stop_for_long": self._stop_worker,
            "terminate": lambda fault: crowd.terminate(self._worker(fault)),
            "restart": self._restart,
            "crash": self._crash,
            "be_away": self._restart,
            "hang": self._hang,
            "flush_scripts": lambda fault: self._client().script_flush(),
            "kill_clients": self._kill_clients,
            "fill": self._fill,
            "delete_lane": self._delete_lane,
            "flush_all": self._flush_all,
            "lose_replies": self._lose,
            "lose_requests": self._lose,
            "slow_replies": self._slow_down,
            "refuse": self._refuse,
            "cut": self._cut,
            "cancel": lambda fault: people.cancel(),
            "pause": self._pause,
            "kill_sender": lambda fault: crowd.kill(_chosen(crowd.senders, fault)),
        }

    def follow(self, faults: Iterable[Fault], *, seconds: float) -> None:
        """Carry out *faults*; returns after so many *seconds*, when the last one is over."""
        begun = time.monotonic()
        threads = [
            threading.Thread(target=self._follow, args=(list(_on(track, faults)), begun))
            for track in TRACKS
        ]
        for thread in threads:
            thread.start()
        self._ending.wait(seconds)
        self._ending.set()
        for thread in threads:
            thread.join()

    def _follow(self, faults: list[Fault], begun: float) -> None:
        for fault in faults:
            if self._ending.wait(max(begun + fault.at - time.monotonic(), 0)):
                return
            try:
                with self._noted(fault):
                    self._deeds[fault.name](fault)
            except Exception as error:
                self.logger.exception("A fault cannot be carried out: %s.", fault)
                self.complaints.append(f"{fault} could not be carried out: {error!r}")

    @contextmanager
    def _noted(self, fault: Fault) -> Iterator[None]:
        number = round(fault.at * 1000)
        self._journal.note("fault", number=number, text=str(fault), name=fault.name)
        try:
            yield
        finally:
            self._journal.note("fault over", number=number)

    @contextmanager
    def _disturbing(self, what: str, places: Iterable[Place] | None = None) -> Iterator[None]:
        """Note that *what* goes on, for *places* or for everybody."""
        names = None if places is None else [place.name for place in places]
        self._journal.note("disturbed", what=what, places=names)
        try:
            yield
        finally:
            self._journal.note("undisturbed", what=what, places=names)

    def _worker(self, fault: Fault) -> Place:
        return _chosen(self._crowd.workers, fault)

    def _client(self) -> redis.Redis:
        return self._server.client(retry=Retry(ConstantBackoff(0.2), 20), socket_timeout=20)

    def _stop_worker(self, fault: Fault) -> None:
        place = self._worker(fault)
        with self._crowd.handled(place) as pid:
            if pid is None:
                return
            self._journal.note("stopped", who=place.who)
            send_signal(pid, signal.SIGSTOP)
            try:
                self._ending.wait(fault.seconds)
            finally:
                send_signal(pid, signal.SIGCONT)
                self._journal.note("continued", who=place.who)

    def _restart(self, fault: Fault) -> None:
        with self._disturbing("the server was away"):
            self._server.stop()
            self._ending.wait(fault.seconds)
            self._server.start()

    def _crash(self, fault: Fault) -> None:
        with self._disturbing("the server was away"):
            self._server.kill()
            self._ending.wait(fault.seconds)
            self._server.start()

    def _hang(self, fault: Fault) -> None:
        with self._disturbing("the server hung"):
            self._server.pause()
            try:
                self._ending.wait(fault.seconds)
            finally:
                self._server.resume()

    def _kill_clients(self, fault: Fault) -> None:
        client = self._client()
        known: list[Any] = client.client_list(_type="normal")
        kinds = sorted({one["cmd"] for one in known})
        chosen = [None, *kinds][fault.choice % (len(kinds) + 1)]
        for one in known:
            if chosen in (None, one["cmd"]):
                client.client_kill_filter(_id=one["id"], skipme=True)

    def _fill(self, fault: Fault) -> None:
        client = self._client()
        with self._disturbing("the server was full"):
            client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)
            try:
                self._ending.wait(fault.seconds)
            finally:
                client.config_set("maxmemory", 0)

    def _delete_lane(self, fault: Fault) -> None:
        queue, lane = _chosen([(queue, lane) for queue in QUEUES for lane in LANES], fault)
        (key,) = queue_keys(self._namespace, queue, (lane,)).lanes
        with self._client().pipeline() as pipeline:
            pipeline.xrange(key)
            pipeline.delete(key)
            bodies = [fields[b"m"] for _, fields in pipeline.execute()[0]]
        self._journal.note("removed", what=f"lane {lane} of {queue}", ids=_ids(bodies))

    def _flush_all(self, fault: Fault) -> None:
        """Remove everything, and note in the same step what there was."""
        with self._client().pipeline() as pipeline:
            for queue in QUEUES:
                keys = queue_keys(self._namespace, queue, LANES)
                pipeline.xrange(keys.dead)
                pipeline.hvals(keys.delayed_messages)
                for lane in keys.lanes:
                    pipeline.xrange(lane)
            pipeline.flushall()
            replies = iter(pipeline.execute())
        bodies: list[bytes] = []
        for queue in QUEUES:
            for entry in next(replies):
                note_dead_letter(self._journal, queue, entry, is_removed=True)
            bodies += [packed.partition(b":")[2] for packed in next(replies)]
            for _ in LANES:
                bodies += [fields[b"m"] for _, fields in next(replies)]
        self._journal.note("removed", what="everything", ids=_ids(bodies))

    def _lose(self, fault: Fault) -> None:
        random = Random(fault.choice)
        places = self._some_places(random)
        pattern = random.choice(_PATTERNS)
        for place in places:
            lose = (
                place.proxy.drop_reply if fault.name == "lose_replies" else place.proxy.drop_before
            )
            lose(pattern, times=random.randrange(1, 6))
        self._ending.wait(fault.seconds)
        for place in places:
            place.proxy.heal()

    def _slow_down(self, fault: Fault) -> None:
        random = Random(fault.choice)
        places = self._some_places(random)
        with self._disturbing("replies were slow", places):
            for place in places:
                place.proxy.delay_replies(random.uniform(0.05, 1.0))
            self._ending.wait(fault.seconds)
            for place in places:
                place.proxy.heal()

    def _refuse(self, fault: Fault) -> None:
        places = self._some_places(Random(fault.choice))
        with self._disturbing("connections were refused", places):
            for place in places:
                place.proxy.refuse()
            self._ending.wait(fault.seconds)
            for place in places:
                place.proxy.accept()

    def _cut(self, fault: Fault) -> None:
        for place in self._some_places(Random(fault.choice)):
            place.proxy.cut()

    def _pause(self, fault: Fault) -> None:
        queue = _chosen(QUEUES, fault)
        self._people.pause(queue)
        self._ending.wait(fault.seconds)
        self._people.resume(queue)

    def _some_places(self, random: Random) -> list[Place]:
        """One process, all workers, all senders or all."""
        crowd = self._crowd
        groups = [[random.choice(crowd.places)] for _ in range(4)]
        return random.choice([*groups, crowd.workers, crowd.senders, crowd.places])


def _on(track: str, faults: Iterable[Fault]) -> Iterator[Fault]:
    return (fault for fault in faults if fault.track == track)


def _chosen(several: Sequence[T], fault: Fault) -> T:
    return several[fault.choice % len(several)]


def _ids(bodies: Iterable[bytes]) -> list[str]:
    return [dramatiq.Message.decode(body).message_id for body in bodies]
