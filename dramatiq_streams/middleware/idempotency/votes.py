"""What is asked of lock servers, what each answers, and what their answers come to (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


@dataclass(frozen=True, slots=True)
class LockCommand:
    """A command for every master."""

    words: tuple[Any, ...]
    #: What to send instead when the server does not know the script that `words` names.
    unabridged: tuple[Any, ...] | None = None


class Verdict(Enum):
    """What is known of a command that was meant for a master."""

    YES = "yes"
    NO = "no"
    #: It was not sent, or the server refused it: it has changed nothing.
    UNSENT = "unsent"
    #: It was sent: it may have been carried out, or be carried out later.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """One master's, or why there is none."""

    verdict: Verdict
    error: Exception | None = None


class Votes:
    """The answers to one command, as they come in.

    Args:
        size: How many masters there are.
        asked: The numbers of those that were asked; for the others it is a no.
    """

    def __init__(self, size: int, asked: Iterable[int]) -> None:
        self._quorum = quorum_of(size)
        self._size = size
        self._asked = frozenset(asked)
        self._answers: dict[int, Answer] = {}

    def add(self, number: int, answer: Answer) -> None:
        """Note the answer of master *number*."""
        self._answers[number] = answer

    @property
    def is_complete(self) -> bool:
        """Whether everyone who was asked has answered."""
        return len(self._answers) == len(self._asked)

    @property
    def is_yes(self) -> bool:
        """Whether a quorum said yes."""
        return self._count(Verdict.YES) >= self._quorum

    @property
    def is_no(self) -> bool:
        """Whether so many said no that there is no quorum without them."""
        noes = self._count(Verdict.NO) + self._size - len(self._asked)
        return noes > self._size - self._quorum

    @property
    def is_quorate(self) -> bool:
        """Whether a quorum said anything."""
        return self._count(Verdict.YES) + self._count(Verdict.NO) >= self._quorum

    @property
    def affected(self) -> tuple[int, ...]:
        """The numbers of the masters that have, or may have, done what was asked."""
        untouched = (Verdict.NO, Verdict.UNSENT)
        return tuple(
            number
            for number in sorted(self._asked)
            if number not in self._answers or self._answers[number].verdict not in untouched
        )

    @property
    def errors(self) -> dict[int, Exception | None]:
        """Why there is no answer, by the number of the master; None when it was too late."""
        return {
            number: self._answers[number].error if number in self._answers else None
            for number in sorted(self._asked)
            if number not in self._answers or self._answers[number].error is not None
        }

    def _count(self, verdict: Verdict) -> int:
        return sum(answer.verdict is verdict for answer in self._answers.values())


def quorum_of(size: int) -> int:
    """More than half of *size*: two quorums have a member in common."""
    return size // 2 + 1
