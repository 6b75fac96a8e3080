"""The demo's server sends answers as described, and remembers who asked for what."""

from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from time import monotonic

import pytest
import requests

from crawl_actors.demo.resources import Answer, Delivery, Resource
from crawl_actors.demo.server import DemoServer


@pytest.fixture
def server() -> Iterator[DemoServer]:
    with DemoServer() as server:
        yield server


def publish(server: DemoServer, path: str, answer: Answer, *failures: Answer) -> str:
    url = server.origin + path
    resource = Resource(url, answer, failures=failures)
    server.publish({url: resource}.get)
    return url


def test_answer_arrives_as_described(server: DemoServer) -> None:
    answer = Answer(203, "text/x-demo", b"contents" * 100, headers=(("X-Demo", "1"),), gzip=True)
    url = publish(server, "/a?b=c", answer)

    response = requests.get(url, timeout=5)

    assert (response.status_code, response.content) == (203, b"contents" * 100)
    assert response.headers["Content-Type"] == "text/x-demo"
    assert response.headers["X-Demo"] == "1"
    assert response.headers["Content-Encoding"] == "gzip"


def test_page_heals_after_its_failures_and_breaks_again_when_forgotten(server: DemoServer) -> None:
    url = publish(server, "/", Answer(), Answer(500), Answer(503))

    first = [requests.get(url, timeout=5).status_code for _ in range(4)]
    server.forget_visits()
    second = requests.get(url, timeout=5).status_code

    assert first == [500, 503, 200, 200]
    assert second == 500


def test_every_request_is_remembered_as_it_was_spelled(server: DemoServer) -> None:
    before = monotonic()
    requests.get(f"{server.origin}/%7Ea?b", headers={"User-Agent": "test"}, timeout=5)
    requests.head(server.origin.replace("localhost", "127.0.0.1"), timeout=5)

    first, second = server.visits

    assert (first.url, first.method, first.user_agent) == (f"{server.origin}/~a?b", "GET", "test")
    assert second.url == server.origin.replace("localhost", "127.0.0.1") + "/"
    assert second.method == "HEAD"
    assert before < first.at_s <= second.at_s < monotonic()


def test_unknown_url_is_not_found(server: DemoServer) -> None:
    response = requests.get(f"{server.origin}/unknown", timeout=5)

    assert response.status_code == 404


def test_retry_after_in_seconds_is_remembered(server: DemoServer) -> None:
    url = publish(server, "/", Answer(429, retry_after=7))

    response = requests.get(url, timeout=5)

    (visit,) = server.visits
    assert response.headers["Retry-After"] == "7"
    assert visit.not_before_s == pytest.approx(visit.at_s + 7)


def test_retry_after_as_a_date_is_never_sooner_than_asked(server: DemoServer) -> None:
    url = publish(server, "/", Answer(429, retry_after=7, retry_after_is_date=True))

    response = requests.get(url, timeout=5)

    (visit,) = server.visits
    date = parsedate_to_datetime(response.headers["Retry-After"])
    assert date.timestamp() == visit.retry_at
    assert 7 <= visit.not_before_s - visit.at_s <= 8


def test_slow_answer_takes_its_time_and_arrives_whole(server: DemoServer) -> None:
    body = bytes(range(256)) * 4
    url = publish(server, "/", Answer(body=body, delivery=Delivery.SLOW, seconds=0.4))
    started = monotonic()

    response = requests.get(url, timeout=5)

    assert response.content == body
    assert monotonic() - started >= 0.3


@pytest.mark.parametrize("delivery", [Delivery.STALLED, Delivery.HUNG_UP])
def test_unfinished_answer_never_arrives(server: DemoServer, delivery: Delivery) -> None:
    url = publish(server, "/", Answer(body=b"never seen", delivery=delivery))

    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=0.5)


def test_endless_answer_drips_until_the_server_closes() -> None:
    with DemoServer() as server:
        url = publish(server, "/", Answer(delivery=Delivery.ENDLESS))
        response = requests.get(url, stream=True, timeout=5)
        beginning = response.raw.read(10)

    rest = response.content

    assert beginning == b"drip drip "
    assert len(rest) < 100
