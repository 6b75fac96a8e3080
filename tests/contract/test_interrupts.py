"""Section 1: an asynchronous exception at any bytecode inside `enqueue` leaves no stale reply."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.queue_state import QueueState
from tests.support.servers import Server

PROGRAM = Path(__file__).with_name("interrupted.py")


@pytest.mark.parametrize("delay", ["0", "60000"], ids=["without delay", "with delay"])
@pytest.mark.parametrize("interrupt", ["TimeLimitExceeded", "Shutdown"])
def test_interrupts_leave_every_connection_clean(
    server: Server, namespace: str, queue: QueueState, interrupt: str, delay: str
) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), server.url, namespace, interrupt, delay],
        capture_output=True,
        text=True,
        timeout=40,
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert not report["is_alive"]
    assert report["errors"] == []
    assert report["stale"] == []
    assert report["interrupts"] > 20
    assert report["confirmed"] <= queue.count() <= report["begun"]
