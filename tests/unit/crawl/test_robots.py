import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import redis
from dramatiq.errors import ConnectionClosed
from redis.backoff import NoBackoff
from redis.retry import Retry

from crawl_actors import robots as robots_room
from crawl_actors.fetching import FetchLimits, Page, fetch
from crawl_actors.robots import (
    MAX_REDIRECTS,
    MAX_ROBOTS_BYTES,
    RETRY_TTL_MS,
    RULES_TTL_MS,
    Robots,
    RobotsAnswer,
    robots_key,
)
from tests.support.waiting import wait_until

from .conftest import RawServer

SITE = "http://example.com"
CRAWL = "crawl1"
AGENT = "crawl-actors/1.0 (+https://example.com; not Googlebot)"
ALLOWED = RobotsAnswer(allowed=True)
FORBIDDEN = RobotsAnswer(allowed=False)
UNAVAILABLE = RobotsAnswer(allowed=False, unavailable=True)

MakeRobots = Callable[..., Robots]


class Site:
    """Answers to /robots.txt, and the URLs that were asked for."""

    def __init__(self) -> None:
        self.answers: dict[str, Page] = {}
        self.asked: list[str] = []

    def says(self, text: str | bytes, **fields: object) -> None:
        body = text.encode() if isinstance(text, str) else text
        self.answer(f"{SITE}/robots.txt", **{"status": 200, "body": body, **fields})

    def answer(self, url: str, **fields: object) -> None:
        self.answers[url] = Page(url, **fields)  # type: ignore[arg-type]

    def fetch(self, url: str) -> Page:
        self.asked.append(url)
        return self.answers[url]


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def make_robots(redis_client: redis.Redis, namespace: str, site: Site) -> MakeRobots:
    """Makes what another process would have: nothing is shared but Redis."""

    def make(**options: object) -> Robots:
        identity = {"namespace": namespace, "crawl_id": CRAWL, "user_agent": AGENT}
        defaults = {**identity, "fetch": site.fetch}
        return Robots(redis_client, **{**defaults, **options})  # type: ignore[arg-type]

    return make


def test_the_rules_for_us_decide(make_robots: MakeRobots, site: Site) -> None:
    site.says(
        "User-agent: googlebot\nDisallow: /\n\n"
        "User-agent: Crawl-Actors\nDisallow: /private\nAllow: /private/open\nCrawl-delay: 1.5\n\n"
        "User-agent: *\nDisallow: /\n"
    )
    robots = make_robots()

    assert robots.check(f"{SITE}/a") == RobotsAnswer(allowed=True, delay_ms=1_500)
    assert robots.check(f"{SITE}/private/a") == RobotsAnswer(allowed=False, delay_ms=1_500)
    assert robots.check(f"{SITE}/private/open/a").allowed


def test_without_rules_for_us_those_for_all_decide(make_robots: MakeRobots, site: Site) -> None:
    site.says("User-agent: googlebot\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\nDisallow: /c*d$")
    robots = make_robots()

    assert robots.check(f"{SITE}/a") == ALLOWED
    assert robots.check(f"{SITE}/b?x=1") == FORBIDDEN
    assert robots.check(f"{SITE}/cxd") == FORBIDDEN
    assert robots.check(f"{SITE}/cxde") == ALLOWED
    assert robots.check(f"{SITE}/robots.txt") == ALLOWED


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0", 0), ("0.25", 250), ("86400", 300_000), ("-1", None), ("nan", None), ("soon", None)],
)
def test_the_crawl_delay_is_read_in_ms_and_capped(
    make_robots: MakeRobots, site: Site, value: str, expected: int | None
) -> None:
    site.says(f"User-agent: *\nCrawl-delay: {value}\nDisallow: /b")

    assert make_robots().check(f"{SITE}/a") == RobotsAnswer(allowed=True, delay_ms=expected)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 300, 304])
def test_a_site_without_robots_txt_allows_everything(
    make_robots: MakeRobots,
    site: Site,
    status: int,
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    site.says("User-agent: *\nDisallow: /", status=status)

    assert make_robots().check(f"{SITE}/a") == ALLOWED
    assert (
        RETRY_TTL_MS
        < redis_client.pttl(robots_key(namespace, SITE, crawl_id=CRAWL))
        <= RULES_TTL_MS
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"status": 500},
        {"status": 503, "body": b"User-agent: *\nAllow: /"},
        {"status": 429},
        {"status": None, "error": "timeout"},
        {"status": None, "error": "connect"},
        {"status": 200, "error": "disconnected"},
        {"status": 200, "error": "encoding"},
    ],
)
def test_a_site_in_trouble_allows_nothing_for_a_short_time(
    make_robots: MakeRobots,
    site: Site,
    fields: dict[str, object],
    redis_client: redis.Redis,
    namespace: str,
) -> None:
    site.says("", **fields)

    answer = make_robots().check(f"{SITE}/a")
    assert answer.cause == fields.get("error")
    assert replace(answer, cause=None) == UNAVAILABLE
    assert 0 < redis_client.pttl(robots_key(namespace, SITE, crawl_id=CRAWL)) <= RETRY_TTL_MS


def test_a_site_that_recovers_is_asked_again_when_the_time_is_over(
    make_robots: MakeRobots, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots_room, "RETRY_TTL_MS", 50)
    site.says("", status=503)
    robots = make_robots()
    assert robots.check(f"{SITE}/a") == UNAVAILABLE

    site.says("User-agent: *\nDisallow: /b")
    wait_until(lambda: robots.check(f"{SITE}/a") == ALLOWED, message="the site is asked again")

    assert robots.check(f"{SITE}/b") == FORBIDDEN
    assert len(site.asked) == 2


def test_a_site_that_asks_for_time_gets_it(
    make_robots: MakeRobots, site: Site, redis_client: redis.Redis, namespace: str
) -> None:
    site.says("", status=503, retry_after_ms=300_000)

    make_robots().check(f"{SITE}/a")

    assert 290_000 < redis_client.pttl(robots_key(namespace, SITE, crawl_id=CRAWL)) <= 300_000


def test_redirects_are_followed_to_other_sites_too(make_robots: MakeRobots, site: Site) -> None:
    elsewhere = "https://other.example/rules"
    site.says("", status=301, redirect_to=elsewhere)
    site.answer(elsewhere, status=200, body=b"User-agent: *\nDisallow: /b")
    robots = make_robots()

    assert robots.check(f"{SITE}/b") == FORBIDDEN
    assert robots.check(f"{SITE}/a") == ALLOWED


def test_a_loop_of_redirects_ends_and_allows_everything(
    make_robots: MakeRobots, site: Site
) -> None:
    site.says("", status=302, redirect_to=f"{SITE}/robots.txt")

    assert make_robots().check(f"{SITE}/a") == ALLOWED
    assert len(site.asked) == MAX_REDIRECTS + 1


def test_a_process_asks_once_and_others_not_at_all(make_robots: MakeRobots, site: Site) -> None:
    site.says("User-agent: *\nDisallow: /b")
    first, second = make_robots(), make_robots()

    answers = [one.check(f"{SITE}/b") for one in (first, first, second, second)]

    assert answers == [FORBIDDEN] * 4
    assert site.asked == [f"{SITE}/robots.txt"]


def test_another_crawl_asks_again_and_the_first_keeps_its_answer(
    make_robots: MakeRobots, site: Site
) -> None:
    site.says("User-agent: *\nAllow: /")
    assert make_robots().check(f"{SITE}/a") == ALLOWED
    site.says("User-agent: *\nDisallow: /")

    assert make_robots(crawl_id="crawl2").check(f"{SITE}/a") == FORBIDDEN
    assert make_robots().check(f"{SITE}/a") == ALLOWED
    assert site.asked == [f"{SITE}/robots.txt"] * 2


def test_threads_that_want_the_same_site_ask_once(make_robots: MakeRobots, site: Site) -> None:
    site.says("User-agent: *\nDisallow: /b")

    def slowly(url: str) -> Page:
        time.sleep(0.05)  # long enough for the others to come
        return site.fetch(url)

    robots = make_robots(fetch=slowly)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: robots.check(f"{SITE}/b"), range(64)))

    assert answers == [FORBIDDEN] * 64
    assert site.asked == [f"{SITE}/robots.txt"]


def test_each_scheme_and_port_has_its_own_rules(make_robots: MakeRobots, site: Site) -> None:
    site.says("User-agent: *\nDisallow: /")
    site.answer(f"{SITE}:8080/robots.txt", status=404)
    site.answer("https://example.com/robots.txt", status=404)
    robots = make_robots()

    assert robots.check(f"{SITE}/a") == FORBIDDEN
    assert robots.check(f"{SITE}:80/a") == FORBIDDEN
    assert robots.check(f"{SITE}:8080/a") == ALLOWED
    assert robots.check("https://example.com/a") == ALLOWED


def test_rules_beyond_the_limit_do_not_count(make_robots: MakeRobots, site: Site) -> None:
    start = b"User-agent: *\nDisallow: /first\n"
    site.says(start + b"# comment\n" * (MAX_ROBOTS_BYTES // 10) + b"Disallow: /second\n")
    robots = make_robots()

    assert robots.check(f"{SITE}/first") == FORBIDDEN
    assert robots.check(f"{SITE}/second") == ALLOWED


def test_half_a_path_at_the_limit_forbids_nothing(make_robots: MakeRobots, site: Site) -> None:
    site.says(b"User-agent: *\nDisallow: /first\nDisallow: /", error="too_large")

    assert make_robots().check(f"{SITE}/other") == ALLOWED


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\xff\xfe",
        b"<!DOCTYPE html><p>Not found",
        b"\xef\xbb\xbf",
        b"Disallow: /",
        b"User-agent: *\nDisallow:\n",
        b":\n::\n#\nUser-agent\nDisallow",
    ],
)
def test_what_is_no_rule_forbids_nothing(make_robots: MakeRobots, site: Site, body: bytes) -> None:
    site.says(body)

    assert make_robots().check(f"{SITE}/a") == ALLOWED


def test_rules_after_a_byte_order_mark_count(make_robots: MakeRobots, site: Site) -> None:
    site.says(b"\xef\xbb\xbfUser-agent: *\rDisallow: /b\r")

    assert make_robots().check(f"{SITE}/b") == FORBIDDEN


def test_escapes_in_rules_and_urls_are_compared_by_meaning(
    make_robots: MakeRobots, site: Site
) -> None:
    site.says("User-agent: *\nDisallow: /%7Ejoe/\nDisallow: /é")
    robots = make_robots()

    assert robots.check(f"{SITE}/~joe/a") == FORBIDDEN
    assert robots.check(f"{SITE}/%C3%A9") == FORBIDDEN


def test_a_file_of_many_names_and_rules_is_read_quickly(
    make_robots: MakeRobots, site: Site
) -> None:
    names = "".join(f"User-agent: bot{number}\n" for number in range(15_000))
    site.says(f"{names}User-agent: *\nDisallow: /b\n" + "Disallow: /c\n" * 10_000)

    started = time.monotonic()
    answer = make_robots().check(f"{SITE}/b")

    assert answer == FORBIDDEN
    assert time.monotonic() - started < 5


def test_what_somebody_else_left_at_our_key_is_replaced(
    make_robots: MakeRobots, site: Site, redis_client: redis.Redis, namespace: str
) -> None:
    redis_client.set(robots_key(namespace, SITE, crawl_id=CRAWL), b"\xff junk", px=60_000)
    site.says("User-agent: *\nDisallow: /b")

    assert make_robots().check(f"{SITE}/b") == FORBIDDEN
    assert make_robots().check(f"{SITE}/b") == FORBIDDEN
    assert len(site.asked) == 1


def test_a_server_that_is_gone_is_a_closed_connection(make_robots: MakeRobots, site: Site) -> None:
    client = redis.Redis(port=1, retry=Retry(NoBackoff(), 0))
    robots = Robots(client, namespace="n", crawl_id=CRAWL, user_agent=AGENT, fetch=site.fetch)

    with pytest.raises(ConnectionClosed):
        robots.check(f"{SITE}/a")


def test_a_url_that_is_none_is_named(make_robots: MakeRobots) -> None:
    with pytest.raises(ValueError, match="mailto:a"):
        make_robots().check("mailto:a")


@pytest.mark.parametrize("user_agent", ["", "1", "(compatible)"])
def test_a_user_agent_without_a_name_is_refused(make_robots: MakeRobots, user_agent: str) -> None:
    with pytest.raises(ValueError, match="product token"):
        make_robots(user_agent=user_agent)


def test_the_sites_that_one_process_remembers_are_bounded(
    make_robots: MakeRobots, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots_room, "_LOCAL_SITES", 3)
    robots = make_robots()
    for number in range(10):
        site.answer(f"{SITE}:{number + 1}/robots.txt", status=404)
        robots.check(f"{SITE}:{number + 1}/")

    assert list(robots._local) == [f"{SITE}:{number}" for number in (8, 9, 10)]


def test_a_real_server_is_asked_for_its_rules(
    make_robots: MakeRobots, raw_server: RawServer
) -> None:
    limits = FetchLimits(deadline_ms=5_000, max_body_bytes=MAX_ROBOTS_BYTES)
    url = raw_server.answer(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 26\r\n\r\n"
        b"User-agent: *\nDisallow: /b"
    )
    robots = make_robots(fetch=lambda url: fetch(url, limits=limits, user_agent=AGENT))

    assert robots.check(f"{url}b") == FORBIDDEN
    assert robots.check(f"{url}a") == ALLOWED
    assert raw_server.requests[0].startswith(b"GET /robots.txt HTTP/1.1\r\n")
    assert len(raw_server.requests) == 1


def test_why_the_rules_cannot_be_read_is_known_to_other_processes_too(
    make_robots: MakeRobots, site: Site
) -> None:
    site.says("", status=None, error="unknown_host")

    answers = [make_robots().check(f"{SITE}/a"), make_robots().check(f"{SITE}/a")]

    assert answers == [replace(UNAVAILABLE, cause="unknown_host")] * 2
    assert site.asked == [f"{SITE}/robots.txt"]


def test_trouble_of_a_site_that_the_rules_moved_to_is_not_that_of_this_one(
    make_robots: MakeRobots, site: Site
) -> None:
    site.says("", status=301, redirect_to="http://b.example/robots.txt")
    site.answer("http://b.example/robots.txt", error="unknown_host")

    assert make_robots().check(f"{SITE}/a") == UNAVAILABLE
