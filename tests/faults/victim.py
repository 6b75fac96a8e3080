"""What the worker processes of these tests load: the actors, and the instant at which they die.

`TEST_DIE_AT` names it: `before SCRIPT` and `after SCRIPT` for a script of dramatiq_streams that has
something to do, or the name of a hook of dramatiq's middleware. The process that gets there first
once the test has allowed `die` kills itself.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

import dramatiq
from dramatiq.middleware import Middleware

from dramatiq_streams import StreamsBroker
from dramatiq_streams.connections import Executor
from dramatiq_streams.scripts import _HASHES, assembled

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
    execute = Executor.execute

    def execute_or_die(self: Executor, *command: Any) -> Any:
        if command[1:2] not in {(_HASHES[script],), (assembled()[script],)}:
            return execute(self, *command)
        if moment == "before":
            die()
        reply = execute(self, *command)
        if moment == "after" and _has_done_something(script, reply):
            die()
        return reply

    Executor.execute = execute_or_die  # type: ignore[method-assign]


def _has_done_something(script: str, reply: Any) -> bool:
    if script == "read":
        return len(reply) > 3 + reply[2]
    if script in {"ack", "extend"}:
        return True
    return bool(reply[0] if isinstance(reply, list) else reply)


class DiesAtHook(Middleware):
    """Dies in the one hook that it is told."""

    def __init__(self, hook: str) -> None:
        setattr(self, hook, lambda *arguments, **keywords: die())


broker = StreamsBroker(
    url=os.environ["TEST_URL"],
    namespace=os.environ["TEST_NAMESPACE"],
    **json.loads(os.environ["TEST_BROKER_OPTIONS"]),
)
dramatiq.set_broker(broker)
declare_actors(broker, journal)

match os.environ["TEST_DIE_AT"].split():
    case [moment, script]:
        die_around(moment, script)
    case [hook]:
        broker.add_middleware(DiesAtHook(hook))
