"""Entries, who holds them, and the threads that wait for them."""

import threading
from collections.abc import Callable, Iterable

from dramatiq_streams.holdings import Holdings
from dramatiq_streams.messages import Entry

OWNER, OTHER = "a consumer", "another consumer"


def entries(count: int) -> list[Entry]:
    return [Entry(1, f"{number}-0", 1, b"") for number in range(1, count + 1)]


def held_by(owner: str, *found: Entry) -> Holdings:
    holdings = Holdings()
    holdings.add(found, owner=owner)
    return holdings


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def join(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
