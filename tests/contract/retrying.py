"""A message that is to be retried, as the Retries middleware leaves it to `enqueue`."""

from typing import Any

from dramatiq.broker import MessageProxy


def deliver(consumer: Any) -> MessageProxy:
    """The next message, marked as Retries marks it before it enqueues it again."""
    message = next(consumer)
    assert message is not None
    message.options["retries"] = message.options.get("retries", 0) + 1
    return message
