"""Senders with a spool, in this process and in others."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from dramatiq_streams import StreamsBroker
from tests.contract.queue_state import QueueState
from tests.support.waiting import wait_until

PROGRAM = Path(__file__).with_name("sender.py")


def run_sender(**settings: Any) -> subprocess.CompletedProcess[str]:
    """Run `sender.py` to its end, or to its death."""
    return subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(settings)],
        capture_output=True,
        text=True,
        timeout=40,
    )


def labels(queue: QueueState) -> list[Any]:
    """The first argument of every message in a lane, in order."""
    return [message.args[0] for message in queue.messages()]


def spooled(broker: StreamsBroker) -> int:
    """How many messages wait in the spool of *broker*."""
    found = broker._process._spool
    assert found is not None
    return found.size()[0]


def wait_until_drained(broker: StreamsBroker) -> None:
    wait_until(lambda: spooled(broker) == 0, timeout=20, message="the spool is drained")
    drain = broker._process._drain
    assert drain is not None
    wait_until(lambda: not drain.is_outage, message="the outage is over")
