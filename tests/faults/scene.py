"""One queue on one server with all who play a part: a producer, victims, survivors, a witness."""

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dramatiq
import redis

from dramatiq_streams import StreamsBroker
from dramatiq_streams.calls import script_hash
from dramatiq_streams.keys import GROUP, QueueKeys, queue_keys
from dramatiq_streams.lanes import DEFAULT_LANES
from tests.conftest import MakeWorker, StartCommand
from tests.support.cli import DramatiqCommand
from tests.support.waiting import wait_until

from .actors import Actors
from .journal import Journal

#: With this prefetch an idle consumer takes its next message in the very command that it waits in,
#: XREADGROUP; with a smaller one than there are lanes it waits in XREAD and then reads.
READS_BLOCKED = len(DEFAULT_LANES)

_ROOT = Path(__file__).parents[2]
_SOURCE = f"""
import sys
sys.path.append({str(_ROOT)!r})
from tests.faults.victim import broker
"""


def script(name: str) -> bytes:
    """A pattern for `FaultyProxy` that matches the calls of a script."""
    return b"^EVALSHA " + script_hash(name).encode()


@dataclass(frozen=True, slots=True)
class Scene:
    """The queue `default` of *broker*, whose *options* its worker processes share.

    `client` goes to the server itself, also where the broker goes through a proxy.
    """

    url: str
    options: Mapping[str, Any]
    broker: StreamsBroker
    actors: Actors
    journal: Journal
    client: redis.Redis
    cli: StartCommand
    make_worker: MakeWorker

    @property
    def keys(self) -> QueueKeys:
        """The queue's keys."""
        return queue_keys(self.broker.namespace, "default", tuple(DEFAULT_LANES))

    def start_victim(
        self,
        *,
        die_at: str = "",
        prefetch: int = 0,
        url: str | None = None,
        host: str | None = None,
        environment: Mapping[str, str] | None = None,
        **command: Any,
    ) -> DramatiqCommand:
        """Start the `dramatiq` command; by default one process with one thread.

        Args:
            die_at: See `victim.py`.
            prefetch: Zero for dramatiq's default.
            url: By default the broker's.
            host: Another machine, as far as others can tell; by default this one.
            **command: As for the fixture `cli`.
        """
        settings = {
            "TEST_DIE_AT": die_at,
            "TEST_DIRECTORY": str(self.journal.directory),
            "TEST_BROKER_OPTIONS": json.dumps(self.options),
            "dramatiq_restart_delay": "100",
            "dramatiq_queue_prefetch": str(prefetch),
            **({} if host is None else {"TEST_HOST": host}),
            **(environment or {}),
        }
        command = {"threads": 1, **command}
        return self.cli(_SOURCE, url=url or self.url, environment=settings, **command)

    def start_survivor(self, **options: Any) -> dramatiq.Worker:
        """Start a worker in this process."""
        return self.make_worker(self.broker, **options)

    def send_notes(self, count: int, prefix: str = "") -> set[str]:
        """Enqueue *count* messages that note that they ran; returns their labels."""
        labels = [f"{prefix}{number}" for number in range(count)]
        self.broker.enqueue_many([self.actors.note.message(label) for label in labels])
        return set(labels)

    def join(self, *, seconds: float = 15.0) -> None:
        """Wait until no message is waiting, delivered or delayed."""
        self.broker.join("default", timeout=int(seconds * 1000))

    def terminate(self, command: DramatiqCommand) -> None:
        """SIGTERM, and wait until the workers have begun to shut down."""
        os.kill(command.pid, signal.SIGTERM)
        command.wait_for_log("Shutting down...")

    def wait_for_death(self, command: DramatiqCommand) -> None:
        """Wait until a victim has died where it was told to, and its command with it."""
        wait_until(
            lambda: self.journal.pids("victim", "died"), timeout=15, message="the victim died"
        )
        self.wait_for_end(command)

    def wait_for_end(self, command: DramatiqCommand) -> None:
        """Wait until the command has ended; what it logs last may be lost."""
        wait_until(lambda: command.returncode is not None, timeout=15, message="dramatiq ended")

    def wait_until_blocked(self, consumers: int = 1) -> None:
        """Wait until so many consumers wait for messages on this server."""
        wait_until(
            lambda: self.client.info("clients")["blocked_clients"] >= consumers,
            message=f"{consumers} consumers are blocked",
        )

    def wait_until_started(self, label: str) -> None:
        """Wait until `hold` runs with *label*."""
        wait_until(lambda: self.journal.pids(label, "started"), message=f"{label} has started")

    def wait_until_pending(self, count: int) -> None:
        """Wait until so many messages are delivered, running or only prefetched."""
        wait_until(lambda: len(self.pending()) == count, message=f"{count} are delivered")

    def pending(self) -> list[dict[str, Any]]:
        """What is delivered and not settled, as XPENDING shows it."""
        found = []
        for lane in self.keys.lanes:
            if self.client.exists(lane) and self.client.xinfo_groups(lane):
                found += self.client.xpending_range(lane, GROUP, min="-", max="+", count=100_000)
        return found

    def deliveries(self) -> list[int]:
        """How often each of the `pending` was delivered."""
        return [entry["times_delivered"] for entry in self.pending()]

    def stored(self) -> list[str]:
        """The message ids of everything that is waiting, delivered or delayed."""
        entries = [entry for lane in self.keys.lanes for entry in self.client.xrange(lane)]
        bodies: list[Any] = [fields[b"m"] for _, fields in entries]
        delayed: list[Any] = self.client.hvals(self.keys.delayed_messages)
        bodies += [packed.partition(b":")[2] for packed in delayed]
        return [dramatiq.Message.decode(body).message_id for body in bodies]

    def holders(self) -> set[str]:
        """The consumers that hold what is `pending`."""
        return {entry["consumer"].decode() for entry in self.pending()}

    def consumers(self) -> set[str]:
        """The consumers that the server knows, with messages or without."""
        known: set[str] = set()
        for lane in (self.keys.wake, *self.keys.lanes):
            known |= {found["name"].decode() for found in self.client.xinfo_consumers(lane, GROUP)}
        return known

    def wait_for_holder(self, command: DramatiqCommand, *, messages: int) -> None:
        """Wait until so many messages are held by a worker of *command*."""
        pids = {f":{pid}:" for pid in command.worker_pids}
        wait_until(
            lambda: (
                sum(
                    any(pid in entry["consumer"].decode() for pid in pids)
                    for entry in self.pending()
                )
                == messages
            ),
            message=f"it holds {messages} messages",
        )

    def take_as(self, consumer: str) -> None:
        """Read all there is in the name of *consumer*, who has no process."""
        self.client.xreadgroup(GROUP, consumer, dict.fromkeys(self.keys.lanes, ">"))

    def heartbeats(self) -> dict[str, float]:
        """The last heartbeat of each consumer, in server milliseconds."""
        found: Any = self.client.zrange(self.keys.consumers, 0, -1, withscores=True)
        return {name.decode(): score for name, score in found}

    def wait_for_heartbeats(self, count: int = 3) -> None:
        """Wait until the worker in this process has looked after the others so often."""
        me = self.broker._process._scope.consumer
        beats: set[float | None] = {self.heartbeats().get(me)}

        def are_enough() -> bool:
            beats.add(self.heartbeats().get(me))
            return len(beats) > count

        wait_until(are_enough, timeout=10 + count, message=f"{count} heartbeats")

    def wait_until_late(self, consumer: str, late_ms: float) -> None:
        """Wait until the last heartbeat of *consumer* is so long ago."""
        wait_until(
            lambda: self.server_ms() - self.heartbeats()[consumer] > late_ms,
            message=f"{consumer} is {late_ms} ms late",
        )

    def server_ms(self) -> float:
        """The server's clock."""
        seconds, microseconds = self.client.time()
        return float(seconds * 1000 + microseconds / 1000)

    def dead_ids(self) -> list[str]:
        """The message id of each dead letter."""
        letters: Any = [fields[b"m"] for _, fields in self.client.xrange(self.keys.dead)]
        return [dramatiq.Message.decode(body).message_id for body in letters]

    def dead_reasons(self) -> list[str]:
        """The reason of each dead letter."""
        return [fields[b"reason"].decode() for _, fields in self.client.xrange(self.keys.dead)]
