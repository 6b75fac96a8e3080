"""`dramatiq crawl_actors` in one terminal, `crawl.send(...)` in another."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from crawl_actors.actors import parse_page
from crawl_actors.pages import Page
from crawl_actors.settings import CrawlSettings
from tests.conftest import StartCommand
from tests.integration.crawl.conftest import Answer, Site, links, stored
from tests.integration.crawl.deployment import WORKERS, Deployment, deployed
from tests.support.cli import DramatiqCommand
from tests.support.servers import Server

MakeSite = Callable[[Mapping[str, Answer]], Site]


@pytest.fixture
def deployment(server: Server, namespace: str, tmp_path: Path) -> Iterator[Deployment]:
    with deployed(url=server.url, namespace=namespace, out=tmp_path / "out") as deployment:
        yield deployment


@pytest.fixture
def workers(deployment: Deployment, cli: StartCommand) -> DramatiqCommand:
    return cli(WORKERS, processes=1, threads=4, environment=deployment.variables)


def test_one_line_of_python_starts_a_crawl(
    tree: Site, deployment: Deployment, workers: DramatiqCommand
) -> None:
    code = f"from crawl_actors import crawl; print(crawl.send({tree.url()!r}).message_id)"
    environment = {**os.environ, **deployment.variables}

    sent = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=30
    )
    deployment.wait_until_over(sent.stdout.strip())

    assert stored(deployment.out).keys() == tree.answers.keys()
    workers.wait_for_log("is over")


def test_importing_the_package_touches_neither_network_nor_disk(tmp_path: Path) -> None:
    environment = {**os.environ, "CRAWL_ACTORS_URL": "redis://127.0.0.1:1"}

    result = subprocess.run(
        [sys.executable, "-c", "import crawl_actors"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "settings", "named"),
    [
        ("ftp://a.example/", {}, "'ftp://a.example/'"),
        ("http://a.example/", {"depth": 1}, "'depth'"),
        ("http://a.example/", {"max_depth": -1}, "max_depth"),
    ],
)
def test_crawl_that_cannot_begin_is_a_dead_letter_and_the_log_says_why(
    url: str,
    settings: dict[str, int],
    named: str,
    deployment: Deployment,
    workers: DramatiqCommand,
) -> None:
    deployment.send(url, **settings)

    workers.wait_for_log(named)
    deployment.broker.join("crawl", timeout=10_000)


def test_failing_page_is_tried_again_and_then_stored_with_its_status(
    make_site: MakeSite, deployment: Deployment, workers: DramatiqCommand
) -> None:
    site = make_site(
        {
            "/": links("/heals", "/fails"),
            "/heals": Answer("ok", statuses=(500, 200)),
            "/fails": Answer("no", statuses=(500,)),
        }
    )

    crawl_id = deployment.send(site.url(), max_retries=1)
    deployment.wait_until_over(crawl_id)

    pages = stored(deployment.out)
    assert (pages["/heals"][0], pages["/fails"][0]) == (200, 500)
    assert (site.requests["/heals"], site.requests["/fails"]) == (2, 2)
    assert deployment.frontier(crawl_id).progress().counts["failed"] == 1


def test_redirects_keep_the_depth_and_end_in_a_loop(
    make_site: MakeSite, deployment: Deployment, workers: DramatiqCommand
) -> None:
    def to(path: str) -> Answer:
        return Answer(statuses=(302,), headers={"Location": path})

    site = make_site({"/": links("/a"), "/a": to("/b"), "/b": to("/a"), "/far": links("/never")})
    site.answers["/a"] = to("/b")
    site.answers["/b"] = to("/c")
    site.answers["/c"] = to("/a")

    deployment.wait_until_over(deployment.send(site.url(), max_depth=1))

    rows = {path: row[:2] for path, row in stored(deployment.out).items()}
    assert rows == {"/": (200, 0), "/a": (302, 1), "/b": (302, 1), "/c": (302, 1)}
    assert all(site.requests[path] == 1 for path in rows)


def test_endless_redirects_are_cut(
    make_site: MakeSite, deployment: Deployment, workers: DramatiqCommand
) -> None:
    answers = {
        f"/{number}": Answer(statuses=(302,), headers={"Location": f"/{number + 1}"})
        for number in range(60)
    }
    site = make_site(answers)

    deployment.wait_until_over(deployment.send(site.url("/0"), max_depth=0))

    pages = stored(deployment.out)
    assert pages.keys() == {f"/{number}" for number in range(21)}
    assert pages["/20"][2] == "too_many_redirects"


def test_what_robots_txt_forbids_is_stored_as_such_and_not_requested(
    make_site: MakeSite, deployment: Deployment, workers: DramatiqCommand
) -> None:
    robots = Answer("User-agent: *\nDisallow: /no", headers={"Content-Type": "text/plain"})
    site = make_site({"/": links("/no", "/yes"), "/yes": links(), "/robots.txt": robots})

    deployment.wait_until_over(deployment.send(site.url()))

    assert {path: row[2] for path, row in stored(deployment.out).items()} == {
        "/": None,
        "/yes": None,
        "/no": "robots",
    }
    assert site.requests["/no"] == 0


def test_message_that_fails_for_good_ends_as_an_error_and_its_claims_are_sent(
    tree: Site, deployment: Deployment, workers: DramatiqCommand
) -> None:
    settings = CrawlSettings(allow=(tree.origin.removeprefix("http://"),))
    frontier = deployment.frontier("c")
    frontier.start(settings, [tree.url()])
    page = {**Page(url=tree.url(), status=200).to_message(), "body": "no base64"}
    # Its last attempt.
    message = parse_page.message_with_options(args=("c", page, 0), retries=8)
    frontier.expand(tree.url(), [tree.url("/1/1")], token=message.message_id, settings=settings)

    deployment.broker.enqueue(message)
    deployment.wait_until_over("c")

    rows = stored(deployment.out)
    assert rows["/"][2] == "internal"
    assert rows["/1/1"][:2] == (200, 1)
