"""Which messages can be taken over, and the form in which they arrive (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dramatiq.actor import Actor
from dramatiq.errors import DecodeError
from dramatiq.message import Message

from ..bodies import parsed
from ..dead_letters import ERROR_LENGTH, Reason
from ..errors import InvalidOption
from ..lanes import Lanes
from ..messages import encode
from ..options import LONGEST_DELAY_MS, delay_until
from .layout import State


class Why(StrEnum):
    """Why a message stays where it is."""

    HELD = "held by a worker"
    ORPHANED = "in the hands of nobody"
    TOO_LARGE = "too large"
    UNDECODABLE = "undecodable"


@dataclass(frozen=True, slots=True)
class Passage:
    """A message in the form in which it arrives."""

    state: State
    lane: str
    body: bytes = field(repr=False)
    #: Milliseconds since 1970; -1 when it is not delayed.
    eta: int = -1
    #: Empty unless it goes to the dead letters.
    reason: str = ""
    error: str = ""

    @property
    def packed(self) -> tuple[Any, ...]:
        """As `depart.lua` takes it, behind the id."""
        return self.state.value, self.lane, self.eta, self.reason, self.error, self.body


@dataclass(frozen=True, slots=True)
class Transit:
    """A message on its way, as the source keeps it."""

    entry: bytes
    target: str
    source: bytes
    row: int
    passage: Passage

    @classmethod
    def parse(cls, entry: bytes, flat: Sequence[bytes]) -> Transit:
        """Read what `depart.lua` wrote."""
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        passage = Passage(
            state=State(fields[b"state"].decode()),
            lane=fields[b"lane"].decode(),
            body=fields[b"m"],
            eta=int(fields[b"eta"]),
            reason=fields[b"reason"].decode(),
            error=fields[b"error"].decode(),
        )
        target = fields[b"target"].decode()
        return cls(entry, target, fields[b"source"], int(fields[b"row"]), passage)


@dataclass(frozen=True, slots=True)
class Judge:
    """Decides what becomes of a message, by the rules of an ordinary send.

    Args:
        actors: Those that are known here; the priority of any other is 0.
        max_bytes: Larger messages stay.
        bury_undecodable: What cannot be decoded becomes a dead letter, instead of staying.
    """

    actors: Mapping[str, Actor[Any, Any]]
    max_bytes: int
    bury_undecodable: bool = False

    def judge(
        self, queue_name: str, state: State, body: bytes, *, lanes: Lanes, now_ms: int
    ) -> Passage | Why:
        """What arrives for *body*, or why it stays."""
        try:
            message = parsed(body)
        except DecodeError as error:
            if not self.bury_undecodable:
                return Why.UNDECODABLE
            lane = lanes.names[lanes.default_position - 1]
            text = _sendable(str(error))
            return Passage(state, lane, body, reason=Reason.UNDECODABLE.value, error=text)
        message = message.copy(queue_name=queue_name)
        lane, arriving = self._lane(message, lanes), encode(message)
        if len(arriving) > self.max_bytes:
            return Why.TOO_LARGE
        if state is State.DEAD:
            text = _sendable(_last_line(message.options.get("traceback")))
            return Passage(state, lane, arriving, reason=Reason.MIGRATED.value, error=text)
        return Passage(state, lane, arriving, _eta(message, now_ms))

    def _lane(self, message: Message[Any], lanes: Lanes) -> str:
        actor = self.actors.get(message.actor_name)
        of_actor = (actor.options, actor.priority) if actor else ({}, 0)
        try:
            position = lanes.choose(message.options, *of_actor)
        except InvalidOption:
            position = lanes.default_position  # it cannot be refused any more
        return lanes.names[position - 1]


def _eta(message: Message[Any], now_ms: int) -> int:
    """Its eta as it is, within what a server can keep; -1 for none, or none that is possible."""
    eta: Any = message.options.get("eta")
    try:
        delay = delay_until(eta, now_ms=now_ms)
    except InvalidOption:
        delay = None  # RedisBroker's workers run such a message at once
    if delay is None:
        return -1
    return int(min(max(eta, 0), now_ms + LONGEST_DELAY_MS))


def _last_line(traceback: object) -> str:
    lines = traceback.strip().splitlines() if isinstance(traceback, str) else []
    return lines[-1] if lines else ""


def _sendable(text: str) -> str:
    return text[:ERROR_LENGTH].encode(errors="backslashreplace").decode()
