"""Spools in a file, what is put there and what is found."""

import multiprocessing
import os
from pathlib import Path

from dramatiq_streams.spool import Spool, Spooled


def a_message(number: int = 0, *, queue: str = "default", size: int = 0) -> Spooled:
    body = b"%d" % number + b"." * size
    return Spooled(queue, "low", body, delivery_id=f"d{number}", eta_ms=number or None)


def open_spool(path: Path, *, messages: int = 1_000, size: int = 10**6, name: str = "ns") -> Spool:
    return Spool(str(path), namespace=name, max_messages=messages, max_bytes=size)


def bodies(spool: Spool, queue: str = "default") -> list[bytes]:
    return [message.body for message in spool.oldest(queue, 10_000, max_bytes=10**9)]


def everything(spool: Spool) -> list[Spooled]:
    """All messages of the queue, which are taken out."""
    found = []
    while batch := spool.oldest("default", 10, max_bytes=10**9):
        assert len({message.identity for message in batch}) == 1
        found += batch
        spool.remove(batch)
    return found


def _add_some(path: Path, process: int) -> None:
    """Spool 25 messages, as a process that is killed then."""
    spool = open_spool(path)
    for number in range(25):
        assert spool.add([a_message(process * 1000 + number)])
    os._exit(0)  # nothing is closed


def add_at_once(path: Path, processes: int) -> list[int | None]:
    """Let so many processes open *path* at once and spool 25 messages each; their exit codes."""
    spawn = multiprocessing.get_context("spawn")
    started = [spawn.Process(target=_add_some, args=(path, number)) for number in range(processes)]
    for process in started:
        process.start()
    for process in started:
        process.join(30)
    return [process.exitcode for process in started]
