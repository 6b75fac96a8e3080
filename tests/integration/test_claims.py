"""Keys claimed in bulk, exactly and by a Bloom filter."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pottery
import pytest
import redis
from dramatiq.errors import ConnectionClosed

from dramatiq_streams import Claims, InvalidOption, StreamsBroker
from dramatiq_streams.claims.bloom import BloomClaims
from tests.support.proxy import FaultyProxy
from tests.support.servers import Server
from tests.support.users import CLAIMS, rights_beside
from tests.support.waiting import wait_until

TTL = 60_000
LINKS = [f"https://example.com/{number}" for number in range(2_500)]

MakeClaims = Callable[..., Claims]


@pytest.fixture(scope="module")
def server(server: Server) -> Iterator[Server]:
    """The shared server, whose user has what claims of both kinds need besides."""
    exact, bloom = rights_beside(CLAIMS)
    with server.granting({*exact, *bloom}):
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """A client of the user under test, for claims."""
    with redis.Redis.from_url(server.url) as made:
        yield made


@pytest.fixture
def make_claims(client: redis.Redis, namespace: str) -> Iterator[MakeClaims]:
    """Makes sets of claims called `links`, in the test's namespace."""
    made: list[Claims] = []

    def make(server: Any = None, *, name: str = "links", ttl: int = TTL) -> Claims:
        claims = Claims(server or client, name, ttl=ttl, namespace=namespace)
        made.append(claims)
        return claims

    yield make
    for claims in made:
        claims.close()


@pytest.fixture
def claims(make_claims: MakeClaims) -> Claims:
    return make_claims()


@pytest.fixture
def bloom(client: redis.Redis, namespace: str) -> Iterator[BloomClaims]:
    with BloomClaims(client, "links", capacity=10_000, namespace=namespace) as made:
        yield made


def test_new_keys_are_told_from_old_ones_in_order(claims: Claims) -> None:
    claims.claim(["b", "d"])

    assert claims.claim(["a", "b", "c", "d"]) == [True, False, True, False]


def test_of_a_key_that_comes_twice_in_a_call_the_first_counts(claims: Claims) -> None:
    assert claims.claim(["a", "b", "a", b"a"]) == [True, True, False, False]
    assert claims.count() == 2


def test_no_keys_are_no_call(make_claims: MakeClaims) -> None:
    with redis.Redis(port=1) as nowhere:
        assert make_claims(nowhere).claim([]) == []


def test_more_keys_than_fit_in_one_call_are_all_claimed(claims: Claims) -> None:
    assert claims.claim(LINKS) == [True] * 2_500
    assert claims.claim(LINKS) == [False] * 2_500
    assert claims.count() == 2_500


def test_owner_gets_its_own_claims_again_and_nobody_elses(claims: Claims) -> None:
    claims.claim(["a", "b"], owner="message 1")
    claims.claim(["c"], owner="message 2")

    assert claims.claim(["a", "b", "c", "d"], owner="message 1") == [True, True, False, True]


def test_released_keys_can_be_claimed_at_once(claims: Claims) -> None:
    claims.claim(["a", "b"])

    assert claims.release(["a", "x"]) == 1

    assert claims.claim(["a", "b"]) == [True, False]


def test_owner_releases_its_own_keys_only(claims: Claims) -> None:
    claims.claim(["a"], owner="one")
    claims.claim(["b"], owner="two")

    assert claims.release(["a", "b"], owner="one") == 1

    assert claims.claim(["a", "b"]) == [True, False]


def test_claims_end_with_their_time(make_claims: MakeClaims) -> None:
    claims = make_claims(ttl=100)
    claims.claim(["a"])

    assert claims.claim(["a"]) == [False]
    wait_until(lambda: claims.claim(["a"]) == [True], message="it can be claimed anew")


def test_expired_claims_are_counted_until_they_are_pruned(make_claims: MakeClaims) -> None:
    lasting, brief = make_claims(), make_claims(ttl=1)
    lasting.claim(["a"])
    brief.claim(LINKS)
    started = time.monotonic()
    wait_until(lambda: time.monotonic() > started + 0.002, message="the brief ones are over")

    assert brief.count() == 2_501
    assert brief.prune() == 2_500
    assert brief.count() == 1


def test_set_with_another_name_is_another_set(make_claims: MakeClaims) -> None:
    make_claims().claim(["a"])

    assert make_claims(name="other").claim(["a"]) == [True]


def test_cleared_set_is_empty(claims: Claims, redis_client: redis.Redis, namespace: str) -> None:
    claims.claim(["a"])

    claims.clear()

    assert claims.count() == 0
    assert list(redis_client.scan_iter(match=f"*{namespace}*")) == []


def test_broker_lends_its_server_and_its_namespace(broker: StreamsBroker, claims: Claims) -> None:
    claims.claim(["a"])

    with Claims(broker, "links", ttl=TTL) as of_broker:
        assert of_broker.claim(["a", "b"]) == [False, True]


def test_client_that_decodes_replies_will_do(server: Server, make_claims: MakeClaims) -> None:
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        assert make_claims(client).claim(["a", "ü", "\ud800"]) == [True, True, True]


def claimed_by_four(claims: Claims | BloomClaims) -> dict[str, int]:
    """How many of four threads that claim all links at once are given each of them."""
    together = threading.Barrier(4)

    def claim_all(_: int) -> list[bool]:
        together.wait(10)
        return claims.claim(LINKS)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(claim_all, range(4)))
    return {link: sum(given) for link, *given in zip(LINKS, *answers, strict=True)}


def test_of_callers_at_the_same_time_one_gets_each_key(make_claims: MakeClaims) -> None:
    assert claimed_by_four(make_claims()) == dict.fromkeys(LINKS, 1)


def test_process_that_was_forked_has_connections_of_its_own(claims: Claims) -> None:
    claims.claim(["a"])
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()

    child = fork.Process(target=lambda: answers.put((os.getpid(), claims.claim(["a", "b"]))))
    child.start()
    child.join(20)

    assert answers.get() == (child.pid, [False, True])
    assert claims.claim(["a", "b", "c"]) == [False, False, True]


def test_lost_reply_does_not_make_new_keys_old(server: Server, make_claims: MakeClaims) -> None:
    with FaultyProxy(server) as proxy, redis.Redis.from_url(proxy.url) as client:
        claims = make_claims(client)
        claims.claim(["old"])
        proxy.drop_reply(rb"^EVALSHA ", times=2)

        assert claims.claim(["a", "old", "b"]) == [True, False, True]

        assert proxy.counts["drop_reply"] == 2


def test_reply_lost_in_the_middle_of_many_keys_loses_none(
    server: Server, make_claims: MakeClaims
) -> None:
    with FaultyProxy(server) as proxy, redis.Redis.from_url(proxy.url) as client:
        claims = make_claims(client)
        claims.claim(LINKS[1_500:1_600])
        proxy.drop_reply(rb"^EVALSHA ")
        proxy.drop_before(rb"^EVALSHA ")

        assert claims.claim(LINKS).count(True) == 2_400


def test_owner_loses_nothing_by_a_server_that_stays_away(
    server: Server, make_claims: MakeClaims
) -> None:
    with FaultyProxy(server) as proxy, redis.Redis.from_url(proxy.url) as client:
        claims = make_claims(client)
        claims.claim(["old"])
        proxy.drop_reply(rb"^EVALSHA ")
        proxy.drop_before(rb"^EVALSHA ", times=2)

        with pytest.raises(ConnectionClosed):
            claims.claim(["a", "old"], owner="message 1")

        assert claims.claim(["a", "old"], owner="message 1") == [True, False]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ttl": 0}, "ttl=0 is not possible"),
        ({"ttl": True}, "ttl=True is not possible"),
        ({"ttl": 10**14}, r"at most 10\*\*13"),
        ({"name": ""}, "name='' is not possible"),
        ({"name": "a{b"}, "no spaces and no braces"),
        ({"namespace": "a b"}, "namespace='a b' is not possible"),
        ({"server": "redis://localhost"}, "a StreamsBroker or a redis.Redis"),
        ({"server": StreamsBroker(), "namespace": "x"}, "a broker has its own"),
    ],
)
def test_impossible_set_is_refused_when_it_is_made(options: dict[str, Any], told: str) -> None:
    given = {"server": redis.Redis(), "name": "links", "ttl": TTL, **options}

    with pytest.raises(InvalidOption, match=told):
        Claims(**given)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("abc",), "keys='abc' is not possible"),
        ((7,), "keys=7 is not possible"),
        (([1],), "Key 1 cannot be claimed"),
    ],
)
def test_impossible_keys_are_refused(claims: Claims, arguments: Any, told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        claims.claim(*arguments)


@pytest.mark.parametrize("owner", ["", 7])
def test_impossible_owner_is_refused(claims: Claims, owner: Any) -> None:
    with pytest.raises(InvalidOption, match=r"owner=.* must be a string"):
        claims.claim(["a"], owner=owner)


def test_bloom_filter_tells_new_keys_from_old_ones(bloom: BloomClaims) -> None:
    assert bloom.claim(["b", "d"]) == [True, True]
    assert bloom.claim(["a", "b", "a", "c", "d"]) == [True, False, False, True, False]
    assert bloom.count() == 4


def test_bloom_filter_never_takes_an_old_key_for_a_new_one(bloom: BloomClaims) -> None:
    first = bloom.claim(LINKS)

    assert first.count(True) >= 2_490
    assert bloom.claim(LINKS) == [False] * 2_500


def test_bloom_filter_is_one_of_potterys(
    bloom: BloomClaims, server: Server, namespace: str
) -> None:
    client = redis.Redis(port=server.port)  # pottery's takes no unix socket
    key = f"{{{namespace}:claims:links}}:bloom"
    theirs = pottery.BloomFilter(num_elements=10_000, false_positives=0.001, redis=client, key=key)
    bloom.claim(["a", "ü"])
    theirs.add("theirs")

    assert "a" in theirs
    assert "ü" in theirs
    assert "b" not in theirs
    assert bloom.claim(["theirs", "b"]) == [False, True]
    assert client.strlen(key) <= bloom.size_bytes
    client.close()


def test_of_callers_of_a_bloom_filter_at_the_same_time_one_gets_each_key(
    client: redis.Redis, namespace: str
) -> None:
    # So large that no key is refused wrongly.
    bloom = BloomClaims(client, "links", capacity=100_000, error_rate=1e-6, namespace=namespace)

    assert claimed_by_four(bloom) == dict.fromkeys(LINKS, 1)
    bloom.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"capacity": 0}, "capacity=0 is not possible"),
        ({"capacity": 1.5}, "capacity=1.5 is not possible"),
        ({"error_rate": 0.0}, "error_rate=0.0 is not possible"),
        ({"error_rate": 1}, "error_rate=1 is not possible"),
        ({"error_rate": 0.51}, "error_rate=0.51 is not possible: .* above 0 and at most 0.5"),
        ({"error_rate": 0.95}, "error_rate=0.95 is not possible"),
        ({"error_rate": float("nan")}, "error_rate=nan is not possible"),
        ({"capacity": 10**9}, r"would need 14,377,587,567 bits, and 2\*\*32 are the most"),
    ],
)
def test_impossible_bloom_filter_is_refused(
    client: redis.Redis, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidOption, match=told):
        BloomClaims(client, "links", **{"capacity": 100, **options})


@pytest.mark.parametrize("error_rate", [0.5, 0.001])
def test_bloom_filter_of_which_all_bits_are_set_can_be_counted(
    client: redis.Redis, namespace: str, error_rate: float
) -> None:
    with BloomClaims(
        client, "links", capacity=1, error_rate=error_rate, namespace=namespace
    ) as bloom:
        bloom.claim(str(number) for number in range(100))

        assert 0 <= bloom.count() < 100


def test_impossible_keys_of_a_bloom_filter_are_refused(bloom: BloomClaims) -> None:
    with pytest.raises(InvalidOption, match="Key b'a' cannot be claimed: keys are strings"):
        bloom.claim([b"a"])  # type: ignore[list-item]
