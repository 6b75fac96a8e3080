"""One process with one dramatiq Worker in it, as `dramatiq --processes 1` has.

StubBroker has no server, so its queue is filled here: `python -m tests.benchmarks.worker THREADS
[MESSAGES]`.
"""

import os
import signal
import sys
import threading


def main(threads: int, messages: int) -> None:
    """Run a Worker until SIGTERM."""
    # Before the system is opened, since that may wait.
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    barrier = os.environ.pop("BENCH_BARRIER", None)

    from dramatiq.worker import Worker

    from tests.benchmarks import app
    from tests.benchmarks.systems.interface import Send

    if messages:
        app.system.send_many([Send(number) for number in range(messages)])
    if barrier:
        app.pass_barrier()
    worker = Worker(app.broker, worker_threads=threads)
    worker.start()
    stop.wait()
    worker.stop()
    app.broker.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
