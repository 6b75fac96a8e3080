"""A crawl in which every page is sent twice: with idempotency keys each is fetched once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartCommand
from tests.integration.crawl.conftest import Site, stored
from tests.integration.crawl.deployment import WORKERS, Deployment, deployed
from tests.support.servers import Server

#: Sends each message that asks for a page a second time, as a sender would whose reply was lost.
DOUBLING = (
    WORKERS
    + """
import uuid
from crawl_actors.setup import broker
from dramatiq.middleware import AgeLimit, Middleware
from dramatiq_streams.middleware import Idempotency

class Doubling(Middleware):
    def before_enqueue(self, broker, message, delay):
        if message.actor_name == "fetch_page":
            message.options["idempotency_key"] = {key!r}

    def after_enqueue(self, broker, message, delay):
        if message.actor_name == "fetch_page" and not message.options.get("is_double"):
            double = message.copy(message_id=str(uuid.uuid4()), options={{"is_double": True}})
            broker.enqueue(double, delay=delay)

broker.add_middleware(Idempotency(), before=AgeLimit)
broker.add_middleware(Doubling())
"""
)


@pytest.fixture
def deployment(server: Server, namespace: str, tmp_path: Path) -> Iterator[Deployment]:
    with deployed(url=server.url, namespace=namespace, out=tmp_path / "out") as deployment:
        yield deployment


@pytest.mark.parametrize("key", [True, False])
def test_each_page_is_fetched_once_though_it_is_sent_twice(
    tree: Site, deployment: Deployment, cli: StartCommand, key: bool
) -> None:
    cli(DOUBLING.format(key=key), processes=1, threads=6, environment=deployment.variables)

    crawl_id = deployment.send(tree.url())
    deployment.wait_until_over(crawl_id)
    deployment.broker.join("crawl", timeout=20_000)

    assert stored(deployment.out).keys() == tree.answers.keys()
    pages = {path: tree.requests[path] for path in tree.answers}
    if key:
        assert pages == dict.fromkeys(tree.answers, 1)
    else:  # without keys the doubles would be fetched
        assert max(pages.values()) > 1
