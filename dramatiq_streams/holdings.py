"""What this process holds of one queue: deliveries not yet settled, and acks still to be sent.

Worker threads acknowledge, the consumer thread reads, the maintenance thread extends leases; they
meet here. It outlives the consumer: after a connection error the Worker makes a new consumer while
messages of the old one are still being worked on.

Acks are committed in groups. While the consumer thread is about to read, its next read carries
them; while it is blocked or gone, the worker thread that acknowledges sends them itself.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from . import clock
from .condition import Condition
from .messages import Entry
from .pacing import Crew, Pace

#: Owns what is acknowledged and still to be confirmed: it takes no room any more.
_ACKED = object()

#: The most acks that one script call carries.
ACK_LIMIT = 500

#: Milliseconds after which a message that runs keeps its thread from other queues.
LONG_MS = 100.0


class Holdings:
    """The deliveries of one queue that this process has not settled."""

    def __init__(
        self, on_settled: Callable[[Entry], None] | None = None, *, crew: Crew | None = None
    ) -> None:
        self._crew = crew or Crew()
        self._pace = Pace(self._crew)
        self._is_held_back = False
        self._on_settled = on_settled or (lambda _entry: None)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        #: What threads wait for: none is woken before it has come.
        self._awaited: list[Callable[[], bool]] = []
        self._owners: dict[Entry, object | None] = {}
        self._counts: Counter[object | None] = Counter()
        self._acks: deque[Entry] = deque()
        self._abandoned: deque[Entry] = deque(maxlen=1000)
        self._carriers = 0
        self._reads = 0
        self._is_reconciling = False
        self._attended_at_ms: float | None = None
        self._unconfirmed_since_ms: float | None = None

    def add(self, entries: Sequence[Entry], *, owner: object) -> None:
        """Note *entries* as held, delivered through the consumer *owner*."""
        with self._lock:
            if entries:
                self._pace.note_taken(was_idle=not self._owners)
            for entry in entries:
                self._owners[entry] = owner
                self._counts[owner] += 1

    def confirm(self, acks: Iterable[Entry]) -> None:
        """Forget *acks*: they have reached the server, which is the proof that acks do."""
        self._unconfirmed_since_ms = clock.monotonic_ms() if self._acks else None
        with self._lock:
            for entry in acks:
                if self._forget(entry) and entry.is_last:  # see `acknowledge`
                    self._on_settled(entry)
            self._notify()

    def drop(self, entries: Iterable[Entry], *, are_done: bool = True) -> None:
        """Forget *entries*: they are settled, given back or lost."""
        with self._lock:
            for entry in entries:
                if self._forget(entry):
                    if are_done:
                        self._note_done(entry)
                    self._on_settled(entry)
            self._notify()

    def abandon(self, entry: Entry) -> None:
        """Let the lease of *entry* expire: it is to be delivered again, and that counts."""
        with self._lock:
            # First: a reconciliation in between would give it back at once, and not count it.
            self._abandoned.append(entry)
            self.drop([entry])

    def disown(self, owner: object) -> None:
        """Keep what *owner* delivered, to be counted against whichever consumer comes next."""
        with self._lock:
            for entry, entry_owner in self._owners.items():
                if entry_owner is owner:
                    self._owners[entry] = None
            self._counts[None] += self._counts.pop(owner, 0)

    def held(self) -> list[Entry]:
        """Every delivery that this process still has a claim to."""
        with self._lock:
            return [entry for entry in self._owners if not entry.is_lost]

    def known(self) -> list[Entry]:
        """Every delivery that has arrived here and may still be pending in our name."""
        with self._lock:
            return [*self._owners, *self._abandoned]

    def room(self, prefetch: int, *, owner: object) -> int:
        """How many more messages *owner* may fetch: acks still to be sent make room already."""
        with self._lock:
            return self._room(prefetch, owner)

    def may_block(self, prefetch: int, lane_count: int, *, owner: object) -> bool:
        """Whether *owner* may fetch a message of each lane: what is too much can be given back.

        Where the user has chosen how many to hold, they are never more.
        """
        with self._lock:
            return not self._pace.is_chosen or self._room(prefetch, owner) >= lane_count

    def note_read(self, took_ms: float, *, is_dry: bool) -> None:
        """A read has come back after *took_ms*, with less than asked for if *is_dry*."""
        with self._lock:
            self._pace.note_read(took_ms)
            if is_dry:
                self._pace.note_dry()

    def note_dry(self) -> None:
        """There was nothing to fetch, so that the consumer thread had to wait for it."""
        with self._lock:
            self._pace.note_dry()

    def wait_for_room(self, prefetch: int, *, owner: object, timeout_ms: float) -> bool:
        """Wait until *owner* may fetch again, or acks wait; returns whether it may fetch."""
        with self._lock:
            self._is_held_back = not self._pace.is_chosen and self._crew.busy_elsewhere() > 0
            space_ms = self._pace.space_ms()
            self._wait_for(
                lambda: self._room(prefetch, owner) > 0 or bool(self._acks),
                max(min(timeout_ms, space_ms or timeout_ms), 0) / 1000,
            )
            has_room = self._room(prefetch, owner) > 0
            self._is_held_back = self._is_held_back and not has_room
            return has_room

    @property
    def is_held_back(self) -> bool:
        """Whether there is no room because of other queues, see `Crew`."""
        return self._is_held_back

    @property
    def is_contended(self) -> bool:
        """Whether another queue waits for a thread that comes free."""
        return self._crew.is_contended

    def long_running(self) -> int:
        """How many messages have run for longer than `LONG_MS`, and go on."""
        now_ms = clock.monotonic_ms()
        # A copy: no lock of another queue is taken while this one's is held.
        held = list(self._owners.items())
        return sum(owner is not _ACKED and _is_long(entry, now_ms) for entry, owner in held)

    def look_again(self) -> None:
        """Let who waits for room look whether there is some, unless it is busy looking."""
        if self._is_held_back and self._lock.acquire(blocking=False):
            try:
                self._notify()
            finally:
                self._lock.release()

    def _room(self, prefetch: int, owner: object) -> int:
        held = self._counts[owner] + self._counts[None]
        return self._pace.limit(prefetch, held=held) - held

    def withdraw(self, prefetch: int, *, owner: object) -> list[Entry]:
        """Take away what is held beyond the limit and has not started, the latest first.

        It will not start any more; the caller gives it back.
        """
        with self._lock:
            excess = -self._room(prefetch, owner)
            owners = (owner, None)
            latest = (
                entry
                for entry, its_owner in reversed(self._owners.items())
                # The server counts a last delivery as begun.
                if its_owner in owners and not entry.is_last and entry.withdraw()
            )
            return list(itertools.islice(latest, max(excess, 0)))

    def note_attention(self) -> None:
        """The consumer thread has looked after its queue, without an error."""
        self._attended_at_ms = clock.monotonic_ms()

    def condition(self) -> Condition:
        """How this process does on the queue."""
        now_ms = clock.monotonic_ms()
        attended_at_ms, since_ms = self._attended_at_ms, self._unconfirmed_since_ms
        return Condition(
            attended_ms=None if attended_at_ms is None else int(now_ms - attended_at_ms),
            unconfirmed_ms=0 if since_ms is None else int(now_ms - since_ms),
        )

    def acknowledge(self, entry: Entry) -> bool:
        """Add *entry* to the acks to be sent; True when the caller has to send them itself."""
        with self._lock:
            if entry.is_settled:
                return False
            entry.is_settled = True
            self._acks.append(entry)
            if entry in self._owners:  # it is no wake-up call
                self._counts[self._owners[entry]] -= 1
                self._counts[_ACKED] += 1
                self._owners[entry] = _ACKED
                self._note_done(entry)
            if self._unconfirmed_since_ms is None:
                self._unconfirmed_since_ms = clock.monotonic_ms()
            if not entry.is_last:
                self._on_settled(entry)
            # Else it leaves when the server knows: the next one may kill this process.
            self._notify()
            return self._carriers == 0

    def take_acks(self) -> list[Entry]:
        """Take the acks to be sent now, oldest first; `put_back` them if they could not be."""
        with self._lock:
            return [self._acks.popleft() for _ in range(min(len(self._acks), ACK_LIMIT))]

    def put_back(self, acks: Sequence[Entry]) -> None:
        """Keep *acks* for the next attempt; they may have taken effect already."""
        with self._lock:
            for ack in acks:
                ack.is_in_doubt = True
            self._acks.extendleft(reversed(acks))

    @property
    def has_acks(self) -> bool:
        """Whether acks are waiting to be sent."""
        return bool(self._acks)

    @contextmanager
    def carrying(self) -> Iterator[None]:
        """While inside, acks wait for the caller's next read."""
        with self._lock:
            self._carriers += 1
        try:
            yield
        finally:
            with self._lock:
                self._carriers -= 1

    def pause_carrying(self) -> bool:
        """Before blocking: stop carrying, unless acks are waiting and a read must come first."""
        with self._lock:
            if not self._acks:
                self._carriers -= 1
            return not self._acks

    def resume_carrying(self) -> None:
        """After blocking: acks wait for the caller's next read again."""
        with self._lock:
            self._carriers += 1

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Around a read and the `add` of what it brought: keeps `reconciling` out."""
        with self._lock:
            self._wait_for(lambda: not self._is_reconciling)
            self._reads += 1
        try:
            yield
        finally:
            with self._lock:
                self._reads -= 1

    @contextmanager
    def reconciling(self) -> Iterator[bool]:
        """Yields True when no read is under way, and then keeps reads out while inside.

        Only then is an entry that the server counts as ours, and that is not held, a lost reply.
        """
        with self._lock:
            is_alone = self._reads == 0 and not self._is_reconciling
            self._is_reconciling = self._is_reconciling or is_alone
        try:
            yield is_alone
        finally:
            if is_alone:
                with self._lock:
                    self._is_reconciling = False
                    self._notify()

    def _note_done(self, entry: Entry) -> None:
        self._pace.note_done(entry.leased_at_ms)
        if _is_long(entry, clock.monotonic_ms()):
            self._crew.tell_others()

    def _forget(self, entry: Entry) -> bool:
        """Returns whether *entry* was held."""
        if entry not in self._owners:
            return False
        self._counts[self._owners.pop(entry)] -= 1
        return True

    def _wait_for(
        self, predicate: Callable[[], bool], timeout_seconds: float = threading.TIMEOUT_MAX
    ) -> None:
        until = time.monotonic() + timeout_seconds
        while not predicate() and (left := until - time.monotonic()) > 0:
            self._awaited.append(predicate)
            self._changed.wait(left)
            if predicate in self._awaited:  # it was woken for another one, or too late
                self._awaited.remove(predicate)

    def _notify(self) -> None:
        # Once: until who waits comes to run, many acks may follow.
        awaited = [predicate for predicate in self._awaited if not predicate()]
        if len(awaited) < len(self._awaited):
            self._awaited = awaited
            self._changed.notify_all()


def _is_long(entry: Entry, now_ms: float) -> bool:
    return entry.started_at_ms is not None and now_ms - entry.started_at_ms >= LONG_MS
