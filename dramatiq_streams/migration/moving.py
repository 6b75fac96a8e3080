"""Moves the messages of a queue, page after page, and keeps the account."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from .. import clock
from ..errors import CommandFailed, InvalidOption
from .layout import Kind, Place, State
from .passages import Judge, Passage, Transit, Why
from .source import PAGE, PAGE_BYTES, Source, Survey
from .target import Target

#: For an id without a body, which RedisBroker would pass over: it departs to nowhere.
_NOTHING = Passage(State.WAITING, "", b"")


@dataclass(slots=True)
class Tally:
    """What became of the messages of one queue in one state."""

    #: Has arrived; of a dry run, what would.
    moved: int = 0
    #: Had arrived already, and only that was not noted: through another run, before this one.
    arrived_before: int = 0
    #: Taken by a worker or another run between the look and the departure.
    gone: int = 0
    left: Counter[Why] = field(default_factory=Counter)

    @property
    def found(self) -> int:
        """All of them, but those that are gone."""
        return self.moved + self.arrived_before + self.left.total()


class Account:
    """What became of all messages so far."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, State], Tally] = {}

    def of(self, queue_name: str, state: State) -> Tally:
        """The tally of one queue and state."""
        return self.tallies.setdefault((queue_name, state), Tally())

    @property
    def moved(self) -> int:
        """How many have arrived, now or before."""
        return sum(tally.moved + tally.arrived_before for tally in self.tallies.values())

    @property
    def left(self) -> Counter[Why]:
        """How many stay where they are, and why."""
        return sum((tally.left for tally in self.tallies.values()), Counter())


class Migration:
    """Moves what *source* has to *target*.

    Args:
        include_unacked: Move also what workers have that gave a sign of life, and what nobody has;
            only when no worker of the old broker runs any more.
        tell: Called when the account has changed.
    """

    def __init__(
        self,
        source: Source,
        target: Target,
        judge: Judge,
        *,
        is_dry: bool = False,
        include_unacked: bool = False,
        tell: Callable[[Account], None] = lambda account: None,
    ) -> None:
        self.account = Account()
        self._source = source
        self._target = target
        self._judge = judge
        self._is_dry = is_dry
        self._include_unacked = include_unacked
        self._tell = tell
        # Rows are numbered per run, so that no two runs can take each other's for their own.
        self._run = uuid.uuid4().hex
        self._row = 1
        #: What was looked at and does not move, by the key of its bodies.
        self._staying: dict[str, set[bytes]] = {}

    def move(self, queue_name: str) -> None:
        """Move all there is of a queue, until there is no more; of a dry run, only count it.

        Raises:
            InvalidOption: Some of it is on its way to another namespace.
            BrokerConnectionError: A server cannot be reached; moving again goes on.
            CommandFailed: A server refuses; what was not taken in stays in transit.
        """
        if self._is_dry:
            self._count_transit(queue_name)
        else:
            self._target.introduce(queue_name)
            self._forward(queue_name)
        emptied: set[str] = set()
        for place in self._places(self._source.survey(queue_name)):
            if self._empty(queue_name, place):
                emptied.add(place.ids)
        self._account_for_the_rest(queue_name, emptied)

    def _places(self, survey: Survey) -> Iterator[Place]:
        """All that is to be emptied: of a state first what workers have, which is the oldest."""
        layout, name = self._source.layout, survey.queue_name
        for place in (layout.waiting(name), layout.delayed(name)):
            held = [each for each in survey.held if each.state is place.state]
            if self._include_unacked:
                yield from (replace(each, worker="") for each in held)
            else:
                yield from (each for each in held if not self._source.is_alive(each.worker))
            yield place
            if self._include_unacked:
                yield Place(place.state, Kind.HASH, place.bodies, place.bodies)
        yield layout.dead(name)

    def _empty(self, queue_name: str, place: Place) -> bool:
        """Move what is in *place*; False when it belongs to a worker that lives after all."""
        # One for all places of these bodies: the hash of bodies is one of them.
        staying = self._staying.setdefault(place.bodies, set())
        for ids in self._pages(place, staying):
            passages = self._judged(queue_name, place, ids, staying)
            if self._is_dry:
                staying.update(message for message, _ in passages)
                bodies = [passage for _, passage in passages if passage is not _NOTHING]
                self.account.of(queue_name, place.state).moved += len(bodies)
            elif passages and not self._depart(queue_name, place, passages):
                return False
            self._tell(self.account)
        return True

    def _pages(self, place: Place, staying: set[bytes]) -> Iterator[list[bytes]]:
        """Ids that are not *staying*, until there are no others.

        What is taken by others moves what is behind it, so a walk that found any is followed by
        one more.
        """
        has_found = True
        while has_found:
            has_found, start = False, 0
            while ids := self._source.ids(place, start):
                fresh = [each for each in ids[:PAGE] if each not in staying]
                if fresh:
                    has_found = True
                    yield fresh
                else:
                    start += len(ids[:PAGE])

    def _judged(
        self, queue_name: str, place: Place, ids: Sequence[bytes], staying: set[bytes]
    ) -> list[tuple[bytes, Passage]]:
        """Which messages go, and how; the others are *staying* from now on."""
        tally, lanes = self.account.of(queue_name, place.state), self._target.lanes(queue_name)
        passages: list[tuple[bytes, Passage]] = []
        ids = self._of_bounded_size(place, ids, staying, tally)
        bodies = self._source.bodies(place, ids) if ids else []
        for message, body in zip(ids, bodies, strict=True):
            if body is None:
                passages.append((message, _NOTHING))
                continue
            judged = self._judge.judge(
                queue_name, place.state, body, lanes=lanes, now_ms=clock.wall_ms()
            )
            if isinstance(judged, Passage):
                passages.append((message, judged))
            else:
                staying.add(message)
                tally.left[judged] += 1
        return passages

    def _of_bounded_size(
        self, place: Place, ids: Sequence[bytes], staying: set[bytes], tally: Tally
    ) -> list[bytes]:
        """As many of *ids*, from the first, as may be fetched at once."""
        chosen: list[bytes] = []
        total = 0
        for message, size in zip(ids, self._source.sizes(place, ids), strict=True):
            if size > self._judge.max_bytes:
                staying.add(message)
                tally.left[Why.TOO_LARGE] += 1
                continue
            total += size
            if chosen and total > PAGE_BYTES:
                break
            chosen.append(message)
        return chosen

    def _depart(
        self, queue_name: str, place: Place, passages: Sequence[tuple[bytes, Passage]]
    ) -> bool:
        """Move *passages*; False when they belong to a worker that lives after all."""
        # Before it is known what departs: a row is never used twice.
        row, self._row = self._row, self._row + len(passages)
        run, target = self._run, self._target.namespace
        # What is not heard of may still be carried out, behind what departs later: then its rows
        # must not be of the same run, or they would look as if they had arrived.
        self._run = uuid.uuid4().hex
        departed = self._source.depart(
            queue_name, place, passages, target=target, source=run, row=row
        )
        self._run = run
        if departed < 0:
            return False
        self.account.of(queue_name, place.state).gone += len(passages) - departed
        self._forward(queue_name)
        return True

    def _forward(self, queue_name: str) -> None:
        """Have all that is in transit arrive, from the oldest on.

        One source at a time, and nothing behind a message that was refused: what arrives of a
        source says that all before it has.
        """
        while messages := self._source.in_transit(queue_name):
            self._check_targets(messages)
            for _, group in groupby(messages, key=lambda message: message.source):
                self._forward_batch(queue_name, list(group))

    def _forward_batch(self, queue_name: str, batch: Sequence[Transit]) -> None:
        taken, failure = self._target.adopt(queue_name, batch)
        if -1 in taken:
            failure = CommandFailed("The target has forgotten what it took in just now; try again.")
            taken = taken[: taken.index(-1)]
        arrived = batch[: len(taken)]
        if arrived:
            self._source.confirm(queue_name, arrived)
        for message, is_new in zip(arrived, taken, strict=True):
            tally = self.account.of(queue_name, message.passage.state)
            tally.moved += is_new
            tally.arrived_before += 1 - is_new
        self._tell(self.account)
        if failure is not None:
            raise failure

    def _count_transit(self, queue_name: str) -> None:
        after = None
        while messages := self._source.in_transit(queue_name, after=after):
            self._check_targets(messages)
            for message in messages:
                self.account.of(queue_name, message.passage.state).moved += 1
            after = messages[-1].entry

    def _check_targets(self, messages: Sequence[Transit]) -> None:
        ours = self._target.namespace
        for message in messages:
            if message.target != ours:
                raise InvalidOption(
                    f"Some messages are on their way to namespace {message.target!r} and may have"
                    f" arrived there: go on with --namespace {message.target}, before any of them"
                    f" go to {ours!r}."
                )

    def _account_for_the_rest(self, queue_name: str, emptied: set[str]) -> None:
        """Note what workers have, and what nobody has."""
        survey = self._source.survey(queue_name)
        for place, number in survey.held.items():
            if place.ids not in emptied:
                self.account.of(queue_name, place.state).left[Why.HELD] += number
        if self._include_unacked:
            return
        for state, number in survey.orphans.items():
            if number:
                self.account.of(queue_name, state).left[Why.ORPHANED] += number
