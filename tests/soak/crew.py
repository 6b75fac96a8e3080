"""The broker and the actors of a soak, the same in all of its processes.

`SOAK` in the environment holds their `Settings` in JSON.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import dramatiq
from dramatiq.broker import Broker, MessageProxy
from dramatiq.errors import BrokerConnectionError
from dramatiq.middleware import CurrentMessage, Middleware, default_middleware

from dramatiq_streams import ServerOutOfMemory, StreamsBroker
from dramatiq_streams.metrics import Metrics

from .journal import Journal
from .schedule import GRACE, LEASE

QUEUES = ("near", "far")
LANES = ("high", "default", "low")
#: The name of the sender with a spool begins so.
SPOOLER = "spooler"
MAX_DELIVERIES = 4
MAX_RETRIES = 2

#: Milliseconds: a message that may be late, and one that is too late in any case.
MAX_AGE = {"perishable": 3_000, "stale": 500}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process needs to know to take part."""

    who: str
    url: str
    namespace: str
    directory: str
    seed: int
    #: Messages per second, of a sender.
    rate: float = 0.0
    spool: str | None = None
    #: As if this process were on another machine; empty for this one.
    host: str = ""

    @classmethod
    def of_environment(cls) -> "Settings":
        """Those that this process was started with."""
        return cls(**json.loads(os.environ["SOAK"]))

    def environment(self) -> dict[str, str]:
        """What a process has to be started with."""
        return {"SOAK": json.dumps(asdict(self))}

    def journal(self) -> Journal:
        """Where this process notes what it does."""
        return Journal(Path(self.directory), self.who)

    def broker(self) -> StreamsBroker:
        """A broker, with short leases and timeouts."""
        middleware = [make() for make in default_middleware]
        return StreamsBroker(
            url=self.url,
            namespace=self.namespace,
            middleware=[*middleware, CurrentMessage(), Metrics()],
            lease=int(LEASE * 1000),
            disconnect_grace=int(GRACE * 1000),
            max_deliveries=MAX_DELIVERIES,
            enqueue_timeout=1_500,
            spool=self.spool,
            socket_timeout=3.0,
            socket_connect_timeout=2.0,
        )


class Witness(Middleware):
    """Notes what becomes of a message beside being run."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        self._journal.note("skipped", id=message.message_id)

    def after_ack(self, broker: Broker, message: MessageProxy) -> None:
        self._journal.note("acked", id=message.message_id)

    def after_nack(self, broker: Broker, message: MessageProxy) -> None:
        self._journal.note("rejected", id=message.message_id)


class Crew:
    """The actors, on *broker*: each notes when it starts and how it ends."""

    def __init__(self, broker: StreamsBroker, journal: Journal) -> None:
        self.broker = broker
        self._journal = journal
        self._deeds: dict[str, Callable[[float], None]] = {
            "work": time.sleep,
            "flaky": self._fail_at_first,
            "failing": self._fail,
            "poison": self._die,
            "parent": self._send_a_child,
            "perishable": time.sleep,
            "stale": time.sleep,
        }
        self.actors = {kind: self._declare(kind) for kind in self._deeds}
        for queue in QUEUES:
            broker.declare_queue(queue)

    def message(self, kind: str, seconds: float, *, queue: str, **options: Any) -> Any:
        """A message of *kind*, not sent yet."""
        message = self.actors[kind].message_with_options(args=(seconds,), **options)
        return message.copy(queue_name=queue)

    def send(self, messages: Sequence[Any], *, delay: int | None = None, **facts: Any) -> None:
        """Send *messages*, and note before what is sent and afterwards what became of it.

        Raises:
            BrokerConnectionError: Not all of them were sent.
        """
        ids = [message.message_id for message in messages]
        first = messages[0]
        facts |= {"kind": first.actor_name, "queue": first.queue_name, "delay": delay}
        self._journal.note("sending", ids=ids, options=first.options, **facts)
        try:
            if len(messages) == 1:
                self.broker.enqueue(first, delay=delay)
            else:
                self.broker.enqueue_many(messages, delay=delay)
        except ServerOutOfMemory as error:
            self._journal.note("unsent", ids=ids, why=str(error)[:200])
            raise
        except BrokerConnectionError as error:
            known = {"sent": "enqueued", "unconfirmed": "unconfirmed", "unsent": "unsent"}
            for event, name in known.items():
                found = [message.message_id for message in getattr(error, name)]
                self._journal.note(event, ids=found, why=str(error)[:200])
            raise
        self._journal.note("sent", ids=ids)

    def _declare(self, kind: str) -> Any:
        def run(seconds: float) -> None:
            message: Any = CurrentMessage.get_current_message()
            known = {"id": message.message_id, "retries": message.options.get("retries", 0)}
            self._journal.note("started", kind=kind, **known)
            try:
                self._deeds[kind](seconds)
            except Exception as error:
                self._journal.note("failed", why=str(error)[:200], **known)
                raise
            self._journal.note("done", **known)

        options: dict[str, Any] = {"max_age": MAX_AGE[kind]} if kind in MAX_AGE else {}
        return dramatiq.actor(
            actor_name=kind,
            broker=self.broker,
            queue_name=QUEUES[0],
            max_retries=MAX_RETRIES,
            min_backoff=50,
            max_backoff=500,
            **options,
        )(run)

    def _fail_at_first(self, seconds: float) -> None:
        time.sleep(seconds)
        message: Any = CurrentMessage.get_current_message()
        if not message.options.get("retries"):
            raise RuntimeError("the first time it fails")

    def _fail(self, seconds: float) -> None:
        time.sleep(seconds)
        raise RuntimeError("it always fails")

    def _die(self, seconds: float) -> None:
        time.sleep(seconds)
        self._journal.note("dies")
        os._exit(1)

    def _send_a_child(self, seconds: float) -> None:
        child = self.message("work", seconds, queue=Random().choice(QUEUES))
        self.send([child], parent=CurrentMessage.get_current_message().message_id)
