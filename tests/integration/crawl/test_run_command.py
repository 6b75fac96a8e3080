"""`crawl-actors run`: what it leaves in the directory, and how it ends."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from crawl_actors.frontier import Frontier
from crawl_actors.running.folder import CrawlFile
from crawl_actors.settings import Environment
from crawl_actors.setup import QUEUE, make_broker
from tests.integration.crawl.conftest import Answer, Run, Site, exported, links, stored
from tests.support.servers import Server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

StartRun = Callable[..., Run]
MakeSite = Callable[[Mapping[str, Answer]], Site]


def test_finished_crawl_is_in_the_database_and_in_the_export(
    tree: Site, start_run: StartRun
) -> None:
    run = start_run(tree.url())

    assert run.wait() == 0
    assert stored(run.out).keys() == tree.answers.keys()
    assert [page["url"] for page in exported(run.out)] == sorted(map(tree.url, tree.answers))
    assert all(tree.requests[path] == 1 for path in tree.answers)
    assert "status 200" in run.log


def test_depth_limit_gives_the_pages_of_that_many_clicks(tree: Site, start_run: StartRun) -> None:
    run = start_run(tree.url(), "--depth", "1", "--processes", "1")

    assert run.wait() == 0
    assert stored(run.out).keys() == {"/", *(f"/{top}" for top in range(6))}


def test_page_limit_is_the_number_of_requests(tree: Site, start_run: StartRun) -> None:
    run = start_run(tree.url(), "--max-pages", "5", "--processes", "1")

    assert run.wait() == 0
    assert len(stored(run.out)) == 5
    assert sum(tree.requests[path] for path in tree.answers) == 5


def test_finished_crawl_is_followed_by_a_new_one_into_the_same_pages(
    tree: Site, start_run: StartRun
) -> None:
    run = start_run(tree.url(), "--depth", "0", "--processes", "1")
    assert run.wait() == 0

    run = start_run(tree.url(), "--depth", "1", "--processes", "1")

    assert run.wait() == 0
    assert len(stored(run.out)) == 7
    assert tree.requests["/"] == 2


def test_new_crawl_reads_robots_txt_again(make_site: MakeSite, start_run: StartRun) -> None:
    site = make_site({"/": links()})
    assert start_run(site.url(), "--processes", "1").wait() == 0
    site.answers["/robots.txt"] = Answer("User-agent: *\nDisallow: /")

    run = start_run(site.url(), "--processes", "1")

    assert run.wait() == 1
    assert stored(run.out)["/"][2] == "robots"
    assert (site.requests["/robots.txt"], site.requests["/"]) == (2, 1)


def test_page_without_links_is_a_whole_crawl(make_site: MakeSite, start_run: StartRun) -> None:
    run = start_run(make_site({"/": links()}).url(), "--processes", "1")

    assert run.wait() == 0
    assert stored(run.out).keys() == {"/"}
    assert re.search(r"this run: 1 URL\b", run.log)


def test_crawl_without_a_single_page_has_failed(make_site: MakeSite, start_run: StartRun) -> None:
    run = start_run(make_site({}).url(), "--processes", "1")

    assert run.wait() == 1
    assert "no page could be fetched: status 404 (1)" in run.log
    assert stored(run.out)["/"][0] == 404


@pytest.mark.parametrize("options", [(), ("--no-robots",)])
def test_unreachable_seed_is_an_error_that_is_stored(
    start_run: StartRun, options: tuple[str, ...]
) -> None:
    run = start_run("http://127.0.0.1:1/", "--max-retries", "0", "--processes", "1", *options)

    assert run.wait() == 1
    assert stored(run.out)["/"][2] == "connect"


def test_seed_on_a_host_that_does_not_exist_fails_with_that_cause(start_run: StartRun) -> None:
    # No label is that long, so no name server is asked.
    run = start_run(f"http://{'a' * 64}.example/", "--processes", "1")

    assert run.wait() == 1
    assert stored(run.out)["/"][2] == "unknown_host"
    assert "no page could be fetched: unknown_host (1)" in run.log


def test_several_seeds_are_one_crawl(make_site: MakeSite, start_run: StartRun) -> None:
    one, other = make_site({"/": links("/a"), "/a": links()}), make_site({"/": links()})

    run = start_run(one.url(), other.url(), "--processes", "1")

    assert run.wait() == 0
    assert len(exported(run.out)) == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "URL"),
        (["ftp://a.example/"], "'ftp://a.example/'"),
        (
            ["http://a.example/", "--depth", "-1"],
            "argument --depth: must be a whole number, 0 or more, not '-1'",
        ),
        (
            ["http://a.example/", "--max-pages", "0"],
            "--max-pages: must be a whole number, 1 or more",
        ),
        (["http://a.example/", "--max-retries", "21"], "0 to 20, not '21'"),
        (
            ["http://a.example/", "--delay", "-1"],
            "--delay: must be a number of seconds, 0 to 86400",
        ),
        (["http://a.example/", "--delay", "1e9"], "0 to 86400, not '1e9'"),
        (
            ["http://a.example/", "--deadline", "0"],
            "--deadline: must be a number of seconds, 0.001",
        ),
        (
            ["http://a.example/", "--user-agent", ""],
            "argument --user-agent: must be printable ASCII",
        ),
        (["http://a.example/", "--user-agent", "bot-ü"], "not 'bot-ü'"),
        (["http://a.example/", "--out", ""], "argument --out: must be a directory, not ''"),
        (["http:///x"], "'http:///x'"),
        (["http://user:pw@a.example/"], "credentials in URLs are not supported"),
        (["http://a.example/", "--allow", "a b"], "'a b'"),
        (["http://a.example/", "--processes", "0"], "processes"),
        (["http://a.example/", "--delay", "nan"], "nan"),
        (["http://a.example/", "--redis-url", "http://h"], "http://h"),
        (["http://a.example/", "--user-agent", "1"], "--user-agent"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_what_is_wrong(
    arguments: list[str], named: str, tmp_path: Path
) -> None:
    result = _run_command(*arguments, cwd=tmp_path)

    assert result.returncode == 2
    assert named in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "crawl-out" / "crawl.json").exists()


def test_server_that_is_not_there_fails_at_once_and_leaves_nothing_to_continue(
    tmp_path: Path,
) -> None:
    arguments = ("http://a.example/", "--redis-url", "redis://127.0.0.1:1")

    result = _run_command(*arguments, cwd=tmp_path)

    assert result.returncode == 1
    assert "127.0.0.1:1" in result.stdout
    assert "To continue" not in result.stderr
    assert not (tmp_path / "crawl-out" / "crawl.json").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_crawl_is_continued_by_the_same_command(
    number: int, code: int, tree: Site, start_run: StartRun
) -> None:
    run = _run_until_working(start_run, tree)

    # As a terminal does: to the whole foreground group.
    os.killpg(run.process.pid, number)
    wait_until(lambda: "Stopping" in run.log, message="it says that it stops")
    tree.is_open.set()

    assert run.wait() == code
    assert "crawl-actors run" in run.log
    assert not (run.out / "pages.jsonl").exists()
    assert "To continue where it stopped" in run.log
    done = len(stored(run.out))
    again = start_run(tree.url())
    assert again.wait() == 0
    assert f"this run: {len(tree.answers) - done} URLs" in again.log
    assert stored(run.out).keys() == tree.answers.keys()
    assert all(tree.requests[path] == 1 for path in tree.answers)
    assert tree.requests["/robots.txt"] == 1


def test_second_ctrl_c_ends_it_at_once(tree: Site, start_run: StartRun) -> None:
    run = _run_until_working(start_run, tree)
    workers = run.workers()

    os.killpg(run.process.pid, signal.SIGINT)
    wait_until(lambda: "Stopping" in run.log, message="it says that it stops")
    os.killpg(run.process.pid, signal.SIGINT)

    assert run.wait(10) == 130
    wait_until(lambda: not any(worker.is_running() for worker in workers))


def test_unfinished_crawl_is_not_mixed_with_another(tree: Site, start_run: StartRun) -> None:
    run = _run_until_working(start_run, tree)
    run.process.kill()
    run.wait()
    tree.is_open.set()

    refused = start_run("http://127.0.0.1:1/")
    assert refused.wait() == 2
    assert "--restart" in refused.log

    restarted = start_run(tree.url("/1/1"), "--depth", "0", "--restart")
    assert restarted.wait() == 0
    assert tree.requests["/robots.txt"] == 2
    assert [page["url"] for page in exported(run.out)] == [tree.url("/1/1")]


def test_directory_in_use_is_refused(tree: Site, start_run: StartRun) -> None:
    _run_until_working(start_run, tree)

    second = start_run(tree.url())

    assert second.wait() == 2
    assert "another run" in second.log


def test_first_page_comes_a_delay_after_the_rules_of_the_site(
    make_site: MakeSite, start_run: StartRun
) -> None:
    site = make_site({"/": links("/a"), "/a": links()})

    run = start_run(site.url(), "--delay", "1", "--processes", "1")

    assert run.wait() == 0
    assert site.requests == {"/robots.txt": 1, "/": 1, "/a": 1}
    assert all(later - sooner > 0.9 for sooner, later in pairwise(site.arrivals))


@pytest.mark.faults
def test_workers_that_are_killed_are_replaced(tree: Site, start_run: StartRun) -> None:
    run = _run_until_working(start_run, tree, "--processes", "2")
    # dramatiq does not notice the death of a worker that has not reported yet.
    wait_until(
        lambda: (run.out / "workers.log").read_text().count("ready for action") == 2,
        message="all workers are ready",
    )

    # All of them: a survivor might be done before the others are replaced.
    for worker in run.workers()[1:]:
        worker.kill()
    tree.is_open.set()

    assert run.wait(90) == 0
    assert "was killed, so all of them ended; starting them again" in run.log
    assert stored(run.out).keys() == tree.answers.keys()


@pytest.mark.faults
def test_workers_do_not_outlive_a_killed_run(tree: Site, start_run: StartRun) -> None:
    run = _run_until_working(start_run, tree)
    workers = run.workers()

    run.process.kill()
    run.wait()
    tree.is_open.set()

    wait_until(lambda: not any(worker.is_running() for worker in workers), timeout=30)
    again = start_run(tree.url())
    assert again.wait() == 0
    assert stored(run.out).keys() == tree.answers.keys()


@pytest.mark.faults
def test_nothing_is_lost_when_everything_is_killed(
    tree: Site, start_run: StartRun, own_server: Server
) -> None:
    arguments = ("--redis-url", own_server.url)
    run = _run_until_working(start_run, tree, *arguments)

    _kill(run)
    own_server.kill()
    own_server.start()
    tree.is_open.set()

    again = start_run(tree.url(), *arguments)
    assert again.wait(90) == 0
    assert stored(run.out).keys() == tree.answers.keys()
    assert len(exported(run.out)) == len(tree.answers)


@pytest.mark.faults
def test_pages_whose_messages_vanished_are_sent_again(
    tree: Site, start_run: StartRun, own_server: Server
) -> None:
    arguments = ("--redis-url", own_server.url)
    run = _run_until_working(start_run, tree, *arguments)
    _kill(run)
    crawl = CrawlFile.from_json((run.out / "crawl.json").read_text())
    broker = make_broker(Environment(url=own_server.url, namespace=crawl.namespace))
    broker.flush(QUEUE)
    broker.close()
    tree.is_open.set()

    again = start_run(tree.url(), *arguments)

    assert again.wait(90) == 0
    assert "had no message" in again.log
    assert stored(run.out).keys() == tree.answers.keys()


@pytest.mark.faults
def test_crawl_that_vanished_from_the_server_is_not_called_finished(
    tree: Site, start_run: StartRun, own_server: Server
) -> None:
    run = _run_until_working(start_run, tree, "--redis-url", own_server.url)
    crawl = CrawlFile.from_json((run.out / "crawl.json").read_text())

    with own_server.client() as client:
        Frontier(client, namespace=crawl.namespace, crawl_id=crawl.crawl_id).delete()

    assert run.wait(90) == 1
    assert "vanished" in run.log
    assert "--restart" in run.log


@pytest.mark.faults
def test_server_may_be_away_for_a_moment(
    tree: Site, start_run: StartRun, own_server: Server
) -> None:
    run = _run_until_working(start_run, tree, "--redis-url", own_server.url)

    own_server.kill()
    tree.is_open.set()
    own_server.start()

    assert run.wait(90) == 0
    assert stored(run.out).keys() == tree.answers.keys()


def _run_until_working(start_run: StartRun, site: Site, *arguments: str) -> Run:
    """A run whose workers wait for the site's first page below the root."""
    site.is_open.clear()
    run = start_run(site.url(), *arguments)
    wait_until(lambda: site.requests["/"] == 1, timeout=30, message="the root is asked for")
    return run


def _kill(run: Run) -> None:
    """SIGKILL to the run and all its workers."""
    for worker in run.workers():
        worker.kill()
    run.process.kill()
    run.wait()


def _run_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "crawl_actors", "run", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )
