"""The crawler as a user deploys it: the `dramatiq` command here, `crawl.send` there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crawl_actors import crawl
from crawl_actors.frontier import Frontier
from crawl_actors.settings import Environment
from crawl_actors.setup import make_broker
from dramatiq_streams import StreamsBroker
from tests.support.waiting import wait_until

#: The module a worker is started with.
WORKERS = "from crawl_actors import crawl\n"


class Deployment:
    """One namespace on one server, with one output directory."""

    def __init__(self, broker: StreamsBroker, environment: Environment) -> None:
        self.broker = broker
        self.out = environment.out
        self.variables = environment.to_variables()

    def send(self, url: str, **settings: Any) -> str:
        """What `crawl.send` does in a process with these variables; returns the crawl's id."""
        return self.broker.enqueue(crawl.message(url, **settings)).message_id

    def frontier(self, crawl_id: str) -> Frontier:
        return Frontier(self.broker.client, namespace=self.broker.namespace, crawl_id=crawl_id)

    def wait_until_over(self, crawl_id: str, *, timeout: float = 45.0) -> None:
        """Return when the crawl has begun and nothing of it is open."""
        frontier = self.frontier(crawl_id)

        def is_over() -> bool:
            progress = frontier.progress()
            return progress.is_known and progress.open == 0

        wait_until(is_over, timeout=timeout, interval=0.05, message="the crawl is over")


@contextmanager
def deployed(*, url: str, namespace: str, out: Path, lease_ms: int = 1000) -> Iterator[Deployment]:
    """A deployment whose workers the test starts, with `Deployment.variables`."""
    environment = Environment(url=url, namespace=namespace, out=out, lease_ms=lease_ms)
    broker = make_broker(environment)
    try:
        yield Deployment(broker, environment)
    finally:
        broker.close()
