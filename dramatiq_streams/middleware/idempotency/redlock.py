"""A lock that a quorum of masters grants: pottery's Redlock, asked in another way.

The algorithm is that of https://valkey.io/topics/distlock/, which Redis has too. pottery
says which commands it consists of; they are noted, and `Masters` sends them. As shipped it
starts a pool of threads for each call, waits for masters that hang, leaves keys on them, and
allows three extensions.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, cast

from ... import clock
from ...errors import InvalidOption, LocksUnavailable
from ...events import Event
from .masters import Masters
from .notepad import Notepad
from .shipped import ShippedRedlock
from .votes import LockCommand, Votes

#: How many times its masters' timeout a lease lasts at least: it is extended at a third of it,
#: which takes up to two timeouts.
SHORTEST_LEASE_IN_TIMEOUTS = 6

#: How many times its masters' timeout an attempt takes at most.
BUDGET_IN_TIMEOUTS = 2.5


class Outcome(StrEnum):
    """How an attempt to take a lock ended."""

    ACQUIRED = "acquired"
    #: By somebody else, or by several at once, none of whom got a quorum.
    HELD = "held"
    #: There is no telling, since too few masters answer.
    UNAVAILABLE = "unavailable"


class Redlock(ShippedRedlock):
    """One holder's lock on *key*; made for one message, used by one thread at a time.

    Another thread may extend it meanwhile. It can be taken again after it was released.

    Args:
        key: The key on each master, as it is: pottery's prefix is left out.
        masters: Who grants it.
        lease_ms: How long it is granted for, from when it was asked for.

    Raises:
        InvalidOption: The lease is too short for the masters' timeout.
    """

    __slots__ = ("_affected", "_is_held", "_lease_ms", "_servers", "_valid_until_ms", "_whole_key")

    # Not pottery's own: scripts that were registered through its class belong to another client.
    _acquired_script: ClassVar[Any] = None
    _extend_script: ClassVar[Any] = None
    _release_script: ClassVar[Any] = None

    def __init__(self, key: str, *, masters: Masters, lease_ms: int) -> None:
        self._servers = masters
        self._lease_ms = checked_lease(lease_ms, masters)
        self._affected: tuple[int, ...] = ()
        self._is_held = False
        self._valid_until_ms = 0.0
        # Half a millisecond more: pottery turns it back into whole ones, and 1.001 * 1000 is less
        # than 1001.
        seconds = (lease_ms + 0.5) / 1000
        super().__init__(key=key, masters=cast(Any, (Notepad(),)), auto_release_time=seconds)

    @property
    def key(self) -> str:
        """The key on each master."""
        return self._whole_key

    @key.setter
    def key(self, value: str) -> None:
        self._whole_key = value

    @property
    def owner(self) -> str:
        """The value of the key: a new UUID for each attempt, empty before the first."""
        return self._uuid

    @property
    def valid_for_ms(self) -> float:
        """How long it is certainly still ours, by this machine's clock; 0 when it is not."""
        return max(self._valid_until_ms - clock.monotonic_ms(), 0.0)

    def acquire(self) -> bool:  # type: ignore[override] # whoever waits for it does so itself
        """Try to take it, now: once, and once more if too few masters answered and it is early.

        Returns:
            False when somebody else has it.

        Raises:
            LocksUnavailable: Too few masters answer, so it is not known whether it is free.
        """
        if self._affected:
            self.release()
        started_ms = clock.monotonic_ms()
        budget_ms = BUDGET_IN_TIMEOUTS * self._servers.timeout_ms
        outcome, votes = self._attempt(within_ms=2 * self._servers.timeout_ms)
        left_ms = budget_ms - (clock.monotonic_ms() - started_ms)
        if outcome is Outcome.UNAVAILABLE and left_ms > self._servers.timeout_ms:
            # A short pause of a server, or a connection that had ended, is no reason to give up.
            outcome, votes = self._attempt(within_ms=left_ms)
        seconds = (clock.monotonic_ms() - started_ms) / 1000
        self._servers.events.time(Event.LOCK_ASKED, outcome, seconds=seconds)
        if outcome is Outcome.UNAVAILABLE:
            raise self._unavailable(votes)
        return outcome is Outcome.ACQUIRED

    def extend(self) -> bool:  # type: ignore[override] # lost is an answer, not an error
        """Hold it for another lease, from now on; as often as one likes.

        Returns:
            False when it is lost: somebody else may have it.

        Raises:
            LocksUnavailable: Too few masters answer; it is ours for `valid_for_ms` more, and
                extending it can be tried again.
        """
        [outcome] = self.extend_all([self], masters=self._servers)
        if isinstance(outcome, LocksUnavailable):
            raise outcome
        return outcome

    @staticmethod
    def extend_all(locks: Sequence[Redlock], *, masters: Masters) -> list[bool | LocksUnavailable]:
        """Extend *locks* of *masters* at once: what `extend` returns or raises for each."""
        started_ms = clock.monotonic_ms()
        every = masters.ask_many([lock.extension() for lock in locks])
        return [
            lock.extended(votes, started_ms=started_ms)
            for lock, votes in zip(locks, every, strict=True)
        ]

    def extension(self) -> tuple[LockCommand, tuple[int, ...]]:
        """What extends it, and on which masters."""
        return self._noted(self.__extend_master), self._affected

    def extended(self, votes: Votes, *, started_ms: float) -> bool | LocksUnavailable:
        """What *votes* say to an extension that was asked for at *started_ms*."""
        if not self._is_held:  # never, or released meanwhile
            return False
        if votes.is_yes and self._begin(started_ms):
            self._servers.events.tell(Event.LOCK_EXTENDED)
            return True
        if not (votes.is_yes or votes.is_no):
            return self._unavailable(votes)
        self._end()
        self._servers.events.tell(Event.LOCK_LOST)
        return False

    def release(self) -> None:  # type: ignore[override] # there is nothing to choose
        """Give it up, on every master that may have the key; nothing if it is not ours.

        Where a master is away this happens when it is back, or else the key expires.
        """
        affected, self._affected = self._affected, ()
        self._end()
        if not affected:
            return
        command = self._noted(self.__release_master)
        try:
            self._servers.ask(command, among=affected, is_kept=True)
        except BaseException:  # an interrupt
            self._servers.tell(command, among=affected)
            raise

    def locked(self) -> float:  # type: ignore[override] # pottery asks the masters
        """Seconds for which it is certainly still ours."""
        return self.valid_for_ms / 1000

    def __enter__(self) -> Self:
        """Take it.

        Raises:
            LocksUnavailable: It is held by somebody else, or too few masters answer.
        """
        if not self.acquire():
            raise LocksUnavailable(f"The lock {self.key!r} is held by somebody else.")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        self.release()
        return False

    def _attempt(self, *, within_ms: float) -> tuple[Outcome, Votes]:
        started_ms = clock.monotonic_ms()
        self._uuid = str(uuid.uuid4())
        try:
            votes = self._servers.ask(self._noted(self.__acquire_master), within_ms=within_ms)
            is_ours = votes.is_yes and self._begin(started_ms)
            if is_ours:
                self._affected = votes.affected
        except BaseException:
            # An interrupt, from anywhere: the key may be taken already.
            self._servers.tell(self._noted(self.__release_master))
            raise
        if not is_ours:
            # Also where the reply is late or lost, and then after the command it belongs to.
            self._servers.tell(self._noted(self.__release_master), among=votes.affected)
        return _outcome(votes, is_ours=is_ours), votes

    def _begin(self, started_ms: float) -> bool:
        """Note until when it is ours, and whether it still is when the answers are there."""
        # Two underscores: pottery's class has the same name, so these are its own methods.
        drift_ms = self.__drift() * 1000
        self._valid_until_ms = started_ms + self._lease_ms - drift_ms
        self._is_held = self.valid_for_ms > 0
        return self._is_held

    def _end(self) -> None:
        self._is_held = False
        self._valid_until_ms = 0.0

    def _noted(self, send: Callable[[Any], object]) -> LockCommand:
        """What pottery's method *send* would have a master do.

        Noted now, with the owner of this attempt, since some masters are sent it much later.
        """
        notepad = Notepad()
        send(notepad)
        return notepad.command

    def _unavailable(self, votes: Votes) -> LocksUnavailable:
        names = self._servers.names
        reasons = [
            f"{names[number]}: {error or 'no answer yet'}" for number, error in votes.errors.items()
        ]
        return LocksUnavailable(
            f"Fewer than {self._servers.quorum} of {len(names)} lock servers agree on"
            f" {self.key!r}: {'; '.join(reasons) or 'they took longer than the lease'}"
        )


def checked_lease(lease_ms: object, masters: Masters) -> int:
    """Return *lease_ms* if a lock of *masters* can be held for so long.

    Raises:
        InvalidOption: It is too short for their timeout.
    """
    shortest = SHORTEST_LEASE_IN_TIMEOUTS * masters.timeout_ms
    if isinstance(lease_ms, bool) or not isinstance(lease_ms, int) or lease_ms < shortest:
        allowed = f"whole milliseconds, {shortest} or more with master_timeout={masters.timeout_ms}"
        raise InvalidOption.of("lease", lease_ms, allowed)
    return lease_ms


def _outcome(votes: Votes, *, is_ours: bool) -> Outcome:
    if is_ours:
        return Outcome.ACQUIRED
    return Outcome.HELD if votes.is_quorate and not votes.is_yes else Outcome.UNAVAILABLE
