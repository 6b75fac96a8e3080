"""What the worker processes of these tests load: the actors, and the instant at which they die.

`TEST_DIE_AT` names it: `before SCRIPT`, or `after SCRIPT` once it has done something, where SCRIPT
is one of dramatiq_streams, the command XREADGROUP, or `forward`, which is a `read` that forwards;
or `body`, the middle of an actor; or a hook of dramatiq's middleware. Whichever
process gets there first, after the test has allowed `die`, kills itself.
"""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dramatiq
from dramatiq.middleware import AgeLimit, Middleware

from dramatiq_streams import StreamsBroker, watch
from dramatiq_streams.calls import assembled, script_hash
from dramatiq_streams.executor import Executor
from dramatiq_streams.middleware import Idempotency

from .actors import declare_actors
from .journal import Journal

journal = Journal(Path(os.environ["TEST_DIRECTORY"]))


def die() -> None:
    """SIGKILL for this process, if the test has allowed it and nobody was faster."""
    if journal.use_up("die"):
        journal.note("victim", "died")
        os.kill(os.getpid(), signal.SIGKILL)


def die_around(moment: str, script: str) -> None:
    """Die right before or right after a call of *script*, whichever thread makes it."""
    for name in ("execute", "execute_blocking"):
        setattr(Executor, name, _dying(getattr(Executor, name), moment, script))


def _dying(execute: Callable[..., Any], moment: str, script: str) -> Callable[..., Any]:
    def execute_or_die(self: Executor, *command: Any, **options: Any) -> Any:
        if not _is_call(script, command):
            return execute(self, *command, **options)
        if moment == "before":
            die()
        reply = execute(self, *command, **options)
        if moment == "after" and _has_done_something(script, reply):
            die()
        return reply

    return execute_or_die


def _is_call(script: str, command: tuple[Any, ...]) -> bool:
    if script == "XREADGROUP":
        return command[0] == script
    if script == "ack" and _is_call("read", command):  # a read may carry the acks
        group = 3 + command[2]  # the first of its arguments, of which the acks are the sixth
        return any(lane > 0 for lane, *_ in json.loads(command[group + 5]))
    if script == "forward":
        script = "read"
    return command[1:2] in {(script_hash(script),), (assembled()[script],)}


def _has_done_something(script: str, reply: Any) -> bool:
    if script == "read":
        return reply[2] > 0 or len(reply) > 5 + reply[4]  # forwarded or delivered
    if script == "forward":
        return bool(reply[2])
    if script == "XREADGROUP":
        return bool(reply)
    if script == "ack":
        return True
    if script in ("tend", "release_dead"):
        return reply[0] + reply[1] > 0
    return bool(reply)


class MortalJournal(Journal):
    """Dies in the middle of an actor: it has done its work and goes on."""

    def note(self, label: str, event: str = "ran") -> None:
        super().note(label, event)
        if event == "ran":
            die()


class DiesAtHook(Middleware):
    """Dies in the one hook that it is told."""

    def __init__(self, hook: str) -> None:
        setattr(self, hook, lambda *arguments, **keywords: die())


if "TEST_HOST" in os.environ:
    # As if this process were on another machine: only the server can tell whether it lives.
    vars(watch)["host_id"] = lambda address: os.environ["TEST_HOST"]

broker = StreamsBroker(
    url=os.environ["TEST_URL"],
    namespace=os.environ["TEST_NAMESPACE"],
    **json.loads(os.environ["TEST_BROKER_OPTIONS"]),
)
if "TEST_IDEMPOTENCY" in os.environ:
    options = json.loads(os.environ["TEST_IDEMPOTENCY"])
    broker.add_middleware(Idempotency(**options), before=AgeLimit)
dramatiq.set_broker(broker)
declare_actors(
    broker,
    MortalJournal(journal.directory) if os.environ["TEST_DIE_AT"] == "body" else journal,
)

match os.environ["TEST_DIE_AT"].split():
    case [moment, script]:
        die_around(moment, script)
    case [hook] if hook != "body":
        broker.add_middleware(DiesAtHook(hook))
