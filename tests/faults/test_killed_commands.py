"""`dramatiq-streams` killed in the middle of its work: given again, it does the rest."""

import subprocess
import sys
from typing import Any

from dramatiq.message import Message

from dramatiq_streams import StreamsBroker
from tests.contract.queue_state import QueueState, new_message
from tests.support.servers import Server
from tests.support.waiting import wait_until

_COMMAND = "import sys; from dramatiq_streams.cli import main; sys.exit(main())"
_LETTERS = 200


def redrive(server: Server, namespace: str, *options: str) -> "subprocess.Popen[bytes]":
    place = ["--url", server.url, "--namespace", namespace]
    arguments = ["dlq", "redrive", "--all", *options, *place]
    return subprocess.Popen([sys.executable, "-c", _COMMAND, *arguments])


def test_redrive_that_is_killed_and_given_again_sends_each_message_once(
    server: Server, namespace: str, broker: StreamsBroker
) -> None:
    queue = QueueState(broker.client, namespace)
    broker.enqueue(new_message("first"))
    broker.flush("default")
    for number in range(_LETTERS):
        fields = {"m": new_message(number).encode(), "reason": "failed", "lane": "low"}
        broker.client.xadd(queue.keys.dead, fields)  # type: ignore[arg-type]

    for killed_at in (50, 100):
        with redrive(server, namespace, "--rate", "200/s") as process:
            wait_until(lambda at=killed_at: len(queue.messages()) >= at)  # type: ignore[misc]
            process.kill()
        assert queue.dead(), "it was killed in the middle"
        # The server may still have had a last command of it to run.
        wait_until(lambda: len(queue.messages()) + len(queue.dead()) == _LETTERS)
    with redrive(server, namespace) as process:
        assert process.wait(30) == 0

    assert queue.dead() == []
    messages: list[Message[Any]] = queue.messages()
    assert sorted(message.args[0] for message in messages) == list(range(_LETTERS))
