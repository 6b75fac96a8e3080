"""A worker dies at the worst instants; the crawl still ends with every page, each once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import StartCommand
from tests.integration.crawl.conftest import Site, stored
from tests.integration.crawl.deployment import WORKERS, Deployment, deployed
from tests.support.cli import DramatiqCommand
from tests.support.servers import Server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults

_DIE = """
import os
from pathlib import Path

def die_once():
    try:
        Path(os.environ["TEST_MARKER"]).touch(exist_ok=False)
    except FileExistsError:
        return
    os._exit(9)
"""

_BETWEEN_CLAIM_AND_ENQUEUE = """
from crawl_actors.frontier import Frontier
original = Frontier.expand

def expand(*args, **options):
    expansion = original(*args, **options)
    if expansion and len(expansion.claims) > 3:
        die_once()
    return expansion

Frontier.expand = expand
"""

_BETWEEN_ENQUEUE_AND_ACK = """
from crawl_actors.setup import broker
original = broker.enqueue_many

def enqueue_many(messages):
    messages = list(messages)
    original(messages)
    if len(messages) > 3 and messages[-1].actor_name == "store_page":
        die_once()

broker.enqueue_many = enqueue_many
"""

_AMID_ENQUEUE = """
from crawl_actors.setup import broker
original = broker.enqueue_many

def enqueue_many(messages):
    messages = list(messages)
    if len(messages) > 3:
        original(messages[:2])
        die_once()
        messages = messages[2:]
    original(messages)

broker.enqueue_many = enqueue_many
"""

_BETWEEN_FETCH_AND_ENQUEUE = """
from crawl_actors.crawls import Crawl
original = Crawl.fetch

def fetch(self, url):
    page = original(self, url)
    if url.endswith("/3"):
        die_once()
    return page

Crawl.fetch = fetch
"""

_BETWEEN_SAVE_AND_FINISH = """
from crawl_actors.storage import SqliteStorage
original = SqliteStorage.save

def save(self, record):
    kept = original(self, record)
    die_once()
    return kept

SqliteStorage.save = save
"""

_BETWEEN_FINISH_AND_ACK = """
from crawl_actors.frontier import Frontier
original = Frontier.finish

def finish(*args, **options):
    done = original(*args, **options)
    die_once()
    return done

Frontier.finish = finish
"""

CRASHES = {
    "between claim and enqueue": _BETWEEN_CLAIM_AND_ENQUEUE,
    "amid enqueue": _AMID_ENQUEUE,
    "between enqueue and ack": _BETWEEN_ENQUEUE_AND_ACK,
    "between fetch and enqueue": _BETWEEN_FETCH_AND_ENQUEUE,
    "between save and finish": _BETWEEN_SAVE_AND_FINISH,
    "between finish and ack": _BETWEEN_FINISH_AND_ACK,
}


@pytest.fixture
def deployment(server: Server, namespace: str, tmp_path: Path) -> Iterator[Deployment]:
    with deployed(url=server.url, namespace=namespace, out=tmp_path / "out") as deployment:
        yield deployment


@pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES.keys())
@pytest.mark.parametrize("settings", [{}, {"max_depth": 2}], ids=["endless", "limited"])
def test_crawl_ends_with_every_page_when_a_worker_dies(
    crash: str,
    settings: dict[str, int],
    tree: Site,
    deployment: Deployment,
    cli: StartCommand,
) -> None:
    marker = deployment.out.parent / "marker"
    start = _starter(cli, deployment, marker, WORKERS + _DIE + crash)
    crawl_id = deployment.send(tree.url(), **settings)
    first = start()
    wait_until(lambda: first.returncode is not None, timeout=30, message="the worker died")

    start()
    deployment.wait_until_over(crawl_id)

    assert marker.exists()
    assert {path: row[:2] for path, row in stored(deployment.out).items()} == {
        path: (200, path.count("/") if path != "/" else 0) for path in tree.answers
    }
    requested = {path: number for path, number in tree.requests.items() if path in tree.answers}
    assert requested.keys() == tree.answers.keys()
    # What the dead worker's threads held is asked for again; nothing that follows from it is.
    assert sum(requested.values()) <= len(tree.answers) + 2 * 4


def _starter(
    cli: StartCommand, deployment: Deployment, marker: Path, source: str
) -> Callable[[], DramatiqCommand]:
    environment = {**deployment.variables, "TEST_MARKER": str(marker)}
    return lambda: cli(source, processes=1, threads=4, environment=environment)
