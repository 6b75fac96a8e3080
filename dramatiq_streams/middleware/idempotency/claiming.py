"""How a message gets the right to run under its key, and gives it back: a record and a lock.

The record is asked first, so that a key that is done costs one round trip. The lock comes before
the record says that it runs: who holds the lock writes the record, and gets the token from it.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dramatiq.errors import BrokerConnectionError, ConnectionClosed
from dramatiq.logging import get_logger

from ... import clock
from ...errors import LocksUnavailable, StreamsError
from ...events import Event, Events
from .masters import Masters
from .options import IdempotencyOptions, OnUnavailable
from .records import Busy, Conflict, Done, Free, Records, Request, Started
from .trouble import Trouble
from .watchdog import Hold, Watchdog

if TYPE_CHECKING:
    from .redlock import Redlock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Too few lock servers answer; *why*."""

    why: str


Refusal = Done | Busy | Conflict | Unavailable


class Claimant:
    """What one process has claimed, and may claim."""

    def __init__(
        self, records: Records, masters: Masters, *, options: IdempotencyOptions, events: Events
    ) -> None:
        self.logger = get_logger(__name__, type(self))
        self.records = records
        self._masters = masters
        self._options = options
        self._events = events
        self._watchdog = Watchdog(records, masters, lease_ms=options.lease_ms, events=events)
        self._lock_trouble = Trouble(self.logger)
        #: Of records that cannot be reached.
        self.record_trouble = Trouble(self.logger)
        self._process = f"{socket.gethostname()}:{os.getpid()}"

    def claim(self, request: Request, *, queue_name: str, interrupts: bool) -> Hold | Refusal:
        """Let this thread run *request*, or say why not.

        Raises:
            BrokerConnectionError: The records cannot be reached; nothing is held.
            StreamsError: Their server refuses.
        """
        standing = _twice(lambda: self.records.look(request))
        if not isinstance(standing, Free | Started):
            return standing
        self.record_trouble.end()
        try:
            lock = self._lock(request)
        except LocksUnavailable as error:
            if self._options.on_unavailable is OnUnavailable.FAIL:
                return Unavailable(str(error))
            is_waiting = self._options.on_unavailable is OnUnavailable.DEFER
            deed = "wait for" if is_waiting else "run without"
            self._lock_trouble.warn(
                "Messages %s locks until there are some again, from key %r on: %s",
                deed,
                request.key,
                error,
            )
            if is_waiting:
                return Unavailable(str(error))
            lock = None
        else:
            self._lock_trouble.end()
            if lock is None:
                return Busy(self._options.lease_ms)
        return self._start(request, lock, queue_name=queue_name, interrupts=interrupts)

    def begin(self) -> None:
        """Let this thread begin another message."""
        self._watchdog.let_go_of_thread()

    def complete(self, hold: Hold, result: bytes | None) -> None:
        """Note that it is done, unless somebody else has started since, and let it go.

        Raises:
            BrokerConnectionError: It may not be noted yet, and is still held; call again.
            StreamsError: The server refuses; it is let go.
        """
        self._watchdog.end_actor(hold)
        try:
            is_noted = _twice(
                lambda: self.records.complete(hold.request, token=hold.token, result=result)
            )
        except BrokerConnectionError:
            raise
        except StreamsError:
            self._watchdog.drop(hold)
            raise
        self._watchdog.drop(hold)
        if not is_noted:
            self._events.tell(Event.COMPLETED_TOO_LATE, hold.queue_name)
            self.logger.warning(
                "Late completion refused: message %s has finished key %r with token %d, and a"
                " newer token was given, or an operator has released the key.",
                hold.request.message_id,
                hold.request.key,
                hold.token,
            )

    def fail(self, hold: Hold) -> None:
        """Note that it has failed, if that can be noted, and let it go."""
        self._watchdog.end_actor(hold)
        try:
            _twice(lambda: self.records.fail(hold.request, token=hold.token))
        except (BrokerConnectionError, StreamsError) as error:
            self.logger.warning(
                "Key %r is not noted as failed, and is free when its lease has expired: %s",
                hold.request.key,
                error,
            )
        self._watchdog.drop(hold)

    def close(self) -> None:
        """Let everything go, and end the watchdog and the lock servers' threads."""
        self._watchdog.stop()
        self._masters.close()
        self.records.close()

    def _lock(self, request: Request) -> Redlock | None:
        from .redlock import Redlock  # there already, since the middleware was made

        lock = Redlock(
            self.records.lock_key(request.key),
            masters=self._masters,
            lease_ms=self._options.lease_ms,
        )
        return lock if lock.acquire() else None

    def _start(
        self, request: Request, lock: Redlock | None, *, queue_name: str, interrupts: bool
    ) -> Hold | Refusal:
        lease_ms = self._options.lease_ms
        owner = uuid.uuid4().hex if lock is None else lock.owner
        begun_ms = clock.monotonic_ms()
        try:
            standing = _twice(
                lambda: self.records.start(
                    request, owner=owner, consumer=self._process, lease_ms=lease_ms
                )
            )
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        if isinstance(standing, Started):
            valid_ms = begun_ms + lease_ms
            if lock is not None:
                valid_ms = clock.monotonic_ms() + lock.valid_for_ms
            hold = Hold(
                request,
                queue_name,
                standing.token,
                lock=lock,
                valid_until_ms=valid_ms,
                interrupts=interrupts,
            )
            self._watchdog.add(hold)
            return hold
        if lock is not None:
            lock.release()
        return Busy(0) if isinstance(standing, Free) else standing


def _twice(ask: Callable[[], T]) -> T:
    """*ask*, and once more if its reply was lost: whatever it does, it does once."""
    try:
        return ask()
    except ConnectionClosed:
        return ask()
