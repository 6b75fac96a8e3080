"""Messages that more than one actor sends, and what an actor knows of its own message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dramatiq import Message
from dramatiq.middleware import CurrentMessage

from crawl_actors.frontier import Claim
from crawl_actors.setup import broker


def fetches(crawl_id: str, claims: Iterable[Claim]) -> list[Message[Any]]:
    """One `fetch_page` message for each of *claims*; by name, as the actors send each other."""
    fetch_page = broker.get_actor("fetch_page")
    return [fetch_page.message(crawl_id, claim.url) for claim in claims]


def current_token() -> str:
    """The id of the message being processed; the same each time it is delivered."""
    return str(_current().message_id)


def current_attempt() -> int:
    """How often the message being processed has failed before."""
    return int(_current().options.get("retries", 0))


def _current() -> Message[Any]:
    message: Message[Any] | None = CurrentMessage.get_current_message()
    if message is None:
        raise RuntimeError("this actor can only run in a dramatiq worker")
    return message
