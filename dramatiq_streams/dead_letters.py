"""Messages given up on: kept with the reason, for `dead_message_ttl`, and sent again on demand."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dramatiq.logging import get_logger
from dramatiq.message import Message

from .calls import Runs
from .keys import GROUP
from .letter_scripts import LetterScripts
from .letters import Letter, LetterFilter
from .lifetimes import Lifetimes
from .messages import Entry
from .scope import Scope
from .uniqueness import unique_for_of

#: Longer error texts are cut: the traceback is in the message's options.
ERROR_LENGTH = 2_000

#: How many dead letters are fetched, or deleted, at once.
PAGE = 200


class Reason(StrEnum):
    """Why a message is dead: the field `reason` of a dead letter."""

    FAILED = "failed"
    ACTOR_NOT_FOUND = "actor_not_found"
    UNDECODABLE = "undecodable"
    MAX_DELIVERIES = "max_deliveries"
    MIGRATED = "migrated"
    DUPLICATE = "duplicate"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"


class Outcome(StrEnum):
    """What became of a letter that was to be sent again."""

    SENT = "sent"
    #: It is not there any more: redriven, purged or expired meanwhile.
    GONE = "gone"
    #: It stays, because another message has its unique key.
    HELD = "held"


_OUTCOMES = {1: Outcome.SENT, 0: Outcome.GONE, -1: Outcome.HELD}


@dataclass(frozen=True, slots=True)
class Redrive:
    """What became of one letter."""

    outcome: Outcome
    #: The id of the message that has its unique key; only of one that is held.
    holder: str | None = None


class DeadLetters:
    """The dead letters of every queue in a scope."""

    def __init__(self, runs: Runs, scope: Scope, *, lifetimes: Lifetimes) -> None:
        self.logger = get_logger(__name__, type(self))
        self._runs = runs
        self._scripts = LetterScripts(runs)
        self._scope = scope
        self._lifetimes = lifetimes
        #: The queues of which it was told that they have too many.
        self._full: set[str] = set()

    def reject(
        self,
        queue_name: str,
        entry: Entry,
        *,
        message: Message[Any] | None,
        body: bytes | None,
        reason: Reason,
        error: str,
    ) -> bool:
        """Move *entry* to the dead letters, with *body*, or as it is stored if that is None.

        Args:
            message: What it holds, if that is known: it may say how long it is kept.

        Returns:
            False, and nothing has changed, when this consumer no longer holds *entry*.
        """
        keys = self._scope.keys(queue_name)
        done = self._scripts.reject(
            lane=keys.lanes[entry.lane - 1],
            dead=keys.dead,
            dead_expiries=keys.dead_expiries,
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            group=GROUP,
            consumer=self._scope.consumer,
            entry=entry.entry_id,
            deliveries=entry.deliveries,
            lane_name=self._scope.lanes.names[entry.lane - 1],
            message=body or b"",
            reason=reason.value,
            # Not every str can be sent: surrogates come from file names and foreign bodies.
            error=error[:ERROR_LENGTH].encode(errors="backslashreplace").decode(),
            ttl=self._lifetimes.of(message),
            most=self._lifetimes.most,
            is_unique=int(entry.has_unique_key or bool(entry.unique_until)),
        )
        self._note_excess(queue_name, done - 1)
        return done > 0

    def letters(
        self, queue_name: str, wanted: LetterFilter, *, after: str | None = None
    ) -> Iterator[Letter]:
        """The dead letters that are *wanted*, oldest first, fetched as they are asked for.

        Those that die after the first was fetched are left out: what is sent again and dies again
        does not come twice.

        Args:
            queue_name: The queue.
            wanted: Which ones.
            after: Begin behind this letter id.
        """
        dead = self._scope.keys(queue_name).dead
        newest = self._runs.execute("XREVRANGE", dead, "+", "-", "COUNT", 1)
        start = f"({after}" if after else str(wanted.died_after_ms or "-")
        while newest:
            found = self._runs.execute("XRANGE", dead, start, newest[0][0], "COUNT", PAGE)
            for letter_id, flat in found:
                fields = dict(zip(flat[::2], flat[1::2], strict=True))
                letter = Letter.parse(queue_name, letter_id, fields)
                if wanted.accepts(letter):
                    yield letter
            if len(found) < PAGE:
                return
            start = f"({found[-1][0].decode()}"

    def redrive(self, letter: Letter) -> Redrive:
        """Send the message of *letter* again, its retries as if it were new, in one step.

        A body that is no message here goes as it is. Repeating a call whose reply was lost sends
        nothing twice. A message that had a unique key has it again.
        """
        keys = self._scope.keys(letter.queue)
        lanes = self._scope.lanes
        is_known = letter.lane in lanes.names
        position = lanes.position(letter.lane) if is_known else lanes.default_position
        message = letter.message
        done, holder = self._scripts.redrive(
            dead=keys.dead,
            dead_expiries=keys.dead_expiries,
            lane=keys.lanes[position - 1],
            unique=keys.unique,
            unique_messages=keys.unique_messages,
            letter=letter.letter_id,
            message=letter.revived() or b"",
            token=uuid.uuid4().hex,
            message_id=letter.letter_id if message is None else message.message_id,
            unique_for=unique_for_of({} if message is None else message.options),
        )
        return Redrive(_OUTCOMES[done], holder.decode() or None)

    def remove(self, letters: Sequence[Letter]) -> int:
        """Drop *letters* of one queue for good; returns how many were still there."""
        removed = 0
        for start in range(0, len(letters), PAGE):
            page = letters[start : start + PAGE]
            ids = [letter.letter_id for letter in page]
            keys = self._scope.keys(page[0].queue)
            removed += self._scripts.remove_letters(
                dead=keys.dead, dead_expiries=keys.dead_expiries, letters=ids
            )
        return removed

    def expire(self, queue_name: str) -> None:
        """Drop the dead letters whose time has come, and the oldest where there are too many."""
        keys = self._scope.keys(queue_name)
        after, dropped = b"", PAGE
        while after or dropped >= PAGE:
            expired, excess, after = self._scripts.expire_letters(
                dead=keys.dead,
                dead_expiries=keys.dead_expiries,
                ttl=self._lifetimes.ttl_ms,
                ttls=self._lifetimes.of_actors(),
                most=self._lifetimes.most,
                limit=PAGE,
                after=after,
            )
            self._note_excess(queue_name, excess)
            dropped = max(expired, excess)

    def _note_excess(self, queue_name: str, dropped: int) -> None:
        """Warn once of a queue that has too many dead letters."""
        if dropped > 0 and queue_name not in self._full:
            self._full.add(queue_name)
            self.logger.warning(
                "Queue %r has more than max_dead_messages (%d) dead letters: the oldest are"
                " dropped. Look why so many messages die, or raise it.",
                queue_name,
                self._lifetimes.most,
            )
