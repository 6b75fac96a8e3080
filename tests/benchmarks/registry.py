"""The systems under test, by name: ours first, then those that it is compared with.

For the harness only: a worker or a producer imports nothing but its own system.
"""

from tests.benchmarks.systems.celery_redis import Celery
from tests.benchmarks.systems.interface import System
from tests.benchmarks.systems.ours import Ours
from tests.benchmarks.systems.rabbitmq_broker import Rabbitmq
from tests.benchmarks.systems.redis_broker import Redis
from tests.benchmarks.systems.stub import Stub
from tests.benchmarks.systems.taskiq_streams import Taskiq

SYSTEMS: dict[str, type[System]] = {
    system.name: system for system in (Ours, Redis, Rabbitmq, Taskiq, Celery, Stub)
}
