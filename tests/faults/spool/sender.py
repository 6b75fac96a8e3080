"""A sender with a spool, as a process of its own that dies where it is told to.

Run as a program: `python sender.py SETTINGS`, which are JSON: `url`, `namespace`, `spool`, the
`labels` to send in order, `die_at` and `until_drained`. It prints each label that it has sent.

`die_at` is `before NAME` or `after NAME`, where NAME is a step: `add` to the spool, `take_in` by
the server, `remove` from the spool.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from dramatiq.message import Message

from dramatiq_streams import StreamsBroker
from dramatiq_streams.outbox import Outbox
from dramatiq_streams.spool import Spool

_STEPS: dict[str, Any] = {"add": Spool, "take_in": Outbox, "remove": Spool}


def die_around(moment: str, step: str) -> None:
    """SIGKILL for this process right before, or right after, it does *step*."""
    owner = _STEPS[step]
    setattr(owner, step, _dying(getattr(owner, step), moment))


def _dying(act: Callable[..., Any], moment: str) -> Callable[..., Any]:
    def act_or_die(*arguments: Any, **options: Any) -> Any:
        if moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = act(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    return act_or_die


def main(settings: dict[str, Any]) -> None:
    """Send, and perhaps wait until the spool is empty."""
    if settings.get("die_at"):
        die_around(*settings["die_at"].split())
    broker = StreamsBroker(
        url=settings["url"], namespace=settings["namespace"], spool=settings["spool"]
    )
    for label in settings["labels"]:
        broker.enqueue(Message("default", "note", (label,), {}, {}))
        sys.stdout.write(f"{label}\n")
        sys.stdout.flush()
    process = broker._process
    process._drain.start()
    deadline = time.monotonic() + 30
    while settings.get("until_drained") and process._spool.size()[0]:
        if time.monotonic() > deadline:
            sys.exit("the spool is not drained")
        time.sleep(0.01)
    broker.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
