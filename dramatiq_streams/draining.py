"""Empties the spool: its messages go to the server, in order, when it can be reached again.

One thread per process, started when the first message is sent or consumed. Of several processes
that share a spool one at a time drains it; what a dead process left is drained by any other.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence

from dramatiq.errors import BrokerConnectionError
from dramatiq.logging import get_logger

from .errors import CommandFailed, ServerOutOfMemory, SpoolFailed, StreamsError
from .outbox import Outbox
from .spool import Spool, Spooled

#: How much goes to the server in one round trip.
MESSAGES_AT_ONCE = 500
BYTES_AT_ONCE = 4 * 1024**2

#: How often an idle process looks for what another one left behind; this asks no server.
IDLE_SECONDS = 10.0

#: How long it waits before it tries again, at random in between: processes would come together.
RETRY_SECONDS = (0.2, 1.0)

#: Seconds that `stop` waits for a round trip that is under way.
STOP_SECONDS = 5.0


class Drain:
    """Moves messages from *spool* to *outbox*, and knows when to spool the next ones.

    Args:
        reach: Raises BrokerConnectionError while the server cannot be reached.
    """

    def __init__(self, spool: Spool, outbox: Outbox, *, reach: Callable[[], object]) -> None:
        self.logger = get_logger(__name__, type(self))
        #: The server could not be reached: whoever tries again now would only wait.
        self.is_outage = False
        self._spool = spool
        self._outbox = outbox
        self._reach = reach
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._waking = threading.Event()
        self._is_stopping = False
        self._complaint = ""

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="dramatiq-streams-drain", daemon=True
                    )
                    self._thread.start()

    def stop(self) -> None:
        """Stop the thread; what is in the spool stays there."""
        self._is_stopping = True
        self._waking.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_SECONDS)

    def must_spool(self, queue_names: Iterable[str]) -> bool:
        """Whether a message for one of *queue_names* has to wait behind others, or for the server.

        A spool that cannot be read keeps nobody from sending: then the order is not kept.
        """
        if self.is_outage:
            return True
        try:
            return self._spool.holds(queue_names)
        except SpoolFailed as error:
            self._complain(error)
            return False

    def add(self, messages: Sequence[Spooled]) -> bool:
        """Spool *messages*, and drain them as soon as possible; False when there is no room.

        Raises:
            SpoolFailed: They are not spooled.
        """
        is_added = self._spool.add(messages)
        if not self.is_outage:  # then the thread tries often enough
            self._waking.set()
        return is_added

    def begin_outage(self, error: Exception) -> None:
        """From now on everything is spooled, until a message has reached the server."""
        if not self.is_outage:
            self.is_outage = True
            self._waking.set()
            self.logger.warning(
                "The server cannot be reached; messages are spooled in %r: %s",
                self._spool.path,
                error,
            )

    def run_once(self) -> float:
        """Drain what there is; returns the seconds after which to do it again."""
        try:
            with self._spool.reserved() as is_ours:
                count = self._drain() if is_ours else 0
            if self.is_outage:
                self._reach()
        except ServerOutOfMemory as error:
            self._complain(error)
        except BrokerConnectionError as error:
            self.begin_outage(error)
        except StreamsError as error:
            self._complain(error)
        except Exception:
            self.logger.exception("Unexpected failure while the spool is drained; it goes on.")
        else:
            self._complaint = ""
            # Until just now nobody woke this thread for what was spooled.
            return 0 if self._has_ended_outage(count) else IDLE_SECONDS
        return random.uniform(*RETRY_SECONDS)

    def _run(self) -> None:
        while not self._is_stopping:
            # Before it looks: what is spooled meanwhile makes it look again.
            self._waking.clear()
            self._waking.wait(self.run_once())

    def _drain(self) -> int:
        """Move all there is, the queues in turn; returns how many messages that were."""
        count = 0
        refusal: Exception | None = None
        queue_names = self._spool.queue_names()
        while queue_names and not self._is_stopping:
            for name in list(queue_names):
                moved, failure = self._drain_some(name)
                count += moved
                if isinstance(failure, BrokerConnectionError):
                    raise failure
                if failure is not None or not moved:
                    # The others need not wait for a queue that the server refuses.
                    queue_names.remove(name)
                    refusal = failure or refusal
        if refusal is not None:
            raise CommandFailed(str(refusal)) from refusal
        return count

    def _drain_some(self, queue_name: str) -> tuple[int, Exception | None]:
        """Move the oldest messages of a queue.

        Returns:
            How many are gone from the spool, and why the others are not.
        """
        batch = self._spool.oldest(queue_name, MESSAGES_AT_ONCE, max_bytes=BYTES_AT_ONCE)
        if not batch:
            return 0, None
        receipt = self._outbox.take_in(batch[0].identity, batch)
        stored = [
            message
            for message, failure in zip(batch, receipt.failures, strict=True)
            if failure is None
        ]
        self._spool.remove(stored)
        return len(stored), receipt.first_failure

    def _has_ended_outage(self, count: int) -> bool:
        if not self.is_outage:
            return False
        self.is_outage = False
        self.logger.info("The server is reached again; %d spooled messages were sent.", count)
        return True

    def _complain(self, error: Exception) -> None:
        """Log *error*, unless it is the last one again."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            self.logger.error("Spooled messages are not sent now, which is tried again: %s", error)
