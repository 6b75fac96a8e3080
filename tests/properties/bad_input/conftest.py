"""A queue as the server has it."""

import pytest
import redis

from tests.contract.queue_state import QueueState


@pytest.fixture
def queue(redis_client: redis.Redis, namespace: str) -> QueueState:
    """The queue "default" as the server has it."""
    return QueueState(redis_client, namespace)
