"""What a stopping worker has not started goes back at once, not when its last actor has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dramatiq.broker import Broker, MessageProxy
from dramatiq.common import iter_queue
from dramatiq.middleware import Middleware
from dramatiq.worker import QUEUE_PREFETCH, Worker

if TYPE_CHECKING:
    from ..process import Process


class HandBack(Middleware):
    """Empties the queue between the consumers and the threads of a worker that begins to stop.

    By itself dramatiq gives messages back after its threads have ended, so one long actor would
    keep all that was fetched. Every `StreamsBroker` has it.

    Args:
        process: What this process has of the broker; asked for anew in each process.
    """

    def __init__(self, process: Callable[[], Process]) -> None:
        self._process = process

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """Let consumers fetch: no more than is needed, unless the user has said how much."""
        is_default = not QUEUE_PREFETCH and worker.queue_prefetch == 2 * worker.worker_threads
        self._process().advance(
            worker,
            threads=worker.worker_threads if is_default else 0,
            queues=worker.consumer_whitelist or (),
        )

    def before_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Give back what waits for a thread of *worker*."""
        self._process().retreat(worker, _unstarted(worker))


def _unstarted(worker: Worker) -> Iterator[MessageProxy]:
    for item in iter_queue(worker.work_queue):
        worker.work_queue.task_done()
        yield item.message
