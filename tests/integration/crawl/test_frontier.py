import random
from itertools import count

import pytest
import redis

from crawl_actors.frontier import CHUNK, FINISHED_TTL_MS, Claim, Frontier
from crawl_actors.settings import CrawlSettings

NO_LIMIT = CrawlSettings()


@pytest.fixture
def frontier(redis_client: redis.Redis, namespace: str) -> Frontier:
    return Frontier(redis_client, namespace=namespace, crawl_id="c")


def expand(
    frontier: Frontier, page: str, links: list[str], settings: CrawlSettings, *, token: str = "t"
) -> list[str] | None:
    expansion = frontier.expand(page, links, token=token, settings=settings)
    return None if expansion is None else [claim.url for claim in expansion.claims]


def finish(frontier: Frontier, page: str, *, token: str = "t", depth: int = 0) -> bool:
    done = frontier.finish(page, token=token, depth=depth, outcome="ok", body_bytes=10)
    return done.is_first


def test_start_opens_the_seeds_once(frontier: Frontier) -> None:
    first = frontier.start(NO_LIMIT, ["a", "b"])
    finish(frontier, "a")
    again = frontier.start(NO_LIMIT, ["a", "b", "c"])

    assert (first, again) == (["a", "b"], ["b"])
    assert list(frontier.open_urls()) == ["b"]


def test_settings_are_those_of_the_start(frontier: Frontier) -> None:
    settings = CrawlSettings(max_depth=2, allow=("a.example",))

    assert frontier.settings() is None
    frontier.start(settings, ["a"])
    assert frontier.settings() == settings


def test_link_is_claimed_by_one_page_only(frontier: Frontier) -> None:
    frontier.start(NO_LIMIT, ["a", "b"])

    assert expand(frontier, "a", ["x", "y"], NO_LIMIT) == ["x", "y"]
    assert expand(frontier, "b", ["x", "z"], NO_LIMIT) == ["z"]


def test_same_message_gets_its_claims_again_as_long_as_they_are_open(frontier: Frontier) -> None:
    frontier.start(NO_LIMIT, ["a"])
    expand(frontier, "a", ["x", "y"], NO_LIMIT)
    finish(frontier, "x", depth=1)

    assert expand(frontier, "a", ["x", "y"], NO_LIMIT) == ["y"]


def test_second_message_for_a_page_gets_nothing_and_cannot_finish_it(frontier: Frontier) -> None:
    frontier.start(NO_LIMIT, ["a"])
    expand(frontier, "a", ["x"], NO_LIMIT, token="first")

    assert expand(frontier, "a", ["x", "y"], NO_LIMIT, token="second") is None
    assert frontier.depth_to_store("a", token="second") is None
    assert not finish(frontier, "a", token="second")
    assert frontier.hops("a") == 0


def test_finished_page_opens_nothing_any_more(frontier: Frontier) -> None:
    frontier.start(NO_LIMIT, ["a"])
    finish(frontier, "a")

    assert expand(frontier, "a", ["x"], NO_LIMIT) is None
    assert frontier.progress().open == 0


def test_page_counts_once_however_often_it_is_finished(frontier: Frontier) -> None:
    frontier.start(NO_LIMIT, ["a", "b"])

    assert finish(frontier, "a")
    assert not finish(frontier, "a")
    assert frontier.progress().counts == {"ok": 1, "bytes": 10}


def test_claims_stop_at_the_page_limit(frontier: Frontier) -> None:
    settings = CrawlSettings(max_pages=3)
    frontier.start(settings, ["a"])

    assert expand(frontier, "a", ["w", "x", "y", "z"], settings) == ["w", "x"]


def test_claims_stop_at_the_depth_limit(frontier: Frontier) -> None:
    settings = CrawlSettings(max_depth=1)
    frontier.start(settings, ["a"])
    expand(frontier, "a", ["b"], settings)

    assert expand(frontier, "b", ["c"], settings) == []


def test_redirect_does_not_count_as_a_click(frontier: Frontier) -> None:
    settings = CrawlSettings(max_depth=0)
    frontier.start(settings, ["a"])

    expansion = frontier.expand("a", ["b"], token="t", settings=settings, step=0, hops=1)

    assert expansion is not None
    assert expansion.claims == (Claim("b", hops=1),)
    assert frontier.depth_to_store("b", token="") == 0


@pytest.mark.parametrize("settings", [NO_LIMIT, CrawlSettings(max_depth=1)])
def test_page_may_have_more_links_than_fit_in_a_call(
    frontier: Frontier, settings: CrawlSettings
) -> None:
    links = [f"http://a.example/{number}" for number in range(2 * CHUNK + 1)]
    frontier.start(settings, ["a"])

    assert expand(frontier, "a", links, settings) == links
    assert sorted(frontier.open_urls()) == sorted(["a", *links])


def test_page_that_came_nearer_is_not_finished_with_its_old_depth(frontier: Frontier) -> None:
    settings = CrawlSettings(max_depth=5)
    frontier.start(settings, ["a"])
    expand(frontier, "a", ["b", "c"], settings)
    expand(frontier, "b", ["d"], settings)
    expand(frontier, "d", ["e"], settings)
    expand(frontier, "c", ["e"], settings)

    done = frontier.finish("e", token="", depth=3, outcome="ok", body_bytes=1)

    assert (done.depth, done.is_first) == (2, False)
    assert frontier.hops("e") is not None


def test_state_of_a_finished_crawl_expires(frontier: Frontier, redis_client: redis.Redis) -> None:
    settings = CrawlSettings(max_depth=5)
    frontier.start(settings, ["a"])
    expand(frontier, "a", [], settings)
    assert redis_client.ttl(frontier.keys[0]) == -1

    finish(frontier, "a")

    left = [redis_client.pttl(key) for key in frontier.keys if redis_client.exists(key)]
    assert left
    assert all(FINISHED_TTL_MS - 60_000 < ttl <= FINISHED_TTL_MS for ttl in left)


def test_vanished_messages_are_counted_and_their_claims_freed(frontier: Frontier) -> None:
    frontier.start(NO_LIMIT, ["a", "b"])
    expand(frontier, "a", ["x"], NO_LIMIT, token="vanished")
    finish(frontier, "b")

    assert frontier.resend(["a", "b", "x"]) == {"a": 1, "x": 1}
    assert expand(frontier, "a", ["x", "y"], NO_LIMIT, token="new") == ["y"]
    assert frontier.resend(["a"]) == {"a": 2}


def test_deleted_crawl_leaves_no_key(
    frontier: Frontier, redis_client: redis.Redis, namespace: str
) -> None:
    settings = CrawlSettings(max_depth=3)
    frontier.start(settings, ["a"])
    expand(frontier, "a", ["b"], settings)

    frontier.delete()

    assert list(redis_client.scan_iter(match=f"*{namespace}*")) == []
    assert not frontier.progress().is_known


@pytest.mark.parametrize("seed", range(40))
def test_pages_and_depths_are_those_of_a_breadth_first_walk_in_any_order(
    redis_client: redis.Redis, namespace: str, seed: int
) -> None:
    dice = random.Random(seed)
    graph = _random_graph(dice)
    limit = dice.randint(0, 8)
    frontier = Frontier(redis_client, namespace=namespace, crawl_id=str(seed))

    depths = _walk_in_random_order(frontier, graph, limit, dice)

    assert depths == _breadth_first(graph, limit)
    assert frontier.progress().open == 0


def _random_graph(dice: random.Random) -> dict[str, list[str]]:
    """Pages in a chain, and shortcuts between them that make many of them nearer."""
    size = dice.randint(2, 40)
    return {
        str(page): [
            *(str(dice.randrange(size)) for _ in range(dice.randint(0, 4))),
            *([str(page + 1)] if page + 1 < size else []),
        ]
        for page in range(size)
    }


def _walk_in_random_order(
    frontier: Frontier, graph: dict[str, list[str]], limit: int, dice: random.Random
) -> dict[str, int]:
    """What the actors do, one page after the other, some of them twice."""
    settings, tokens, depths = CrawlSettings(max_depth=limit), count(), dict[str, int]()
    todo = frontier.start(settings, ["0"])
    while todo:
        page, token = todo.pop(dice.randrange(len(todo))), str(next(tokens))
        expansion = frontier.expand(page, graph[page], token=token, settings=settings)
        if dice.random() < 0.3:
            expansion = frontier.expand(page, graph[page], token=token, settings=settings)
        while expansion is not None and not expansion.is_settled:
            nearer = frontier.nearer()
            depths.update(nearer)
            frontier.settle(nearer)
            expansion = frontier.relax(page, token=token, settings=settings)
        assert expansion is not None
        todo += [claim.url for claim in expansion.claims]
        depth = frontier.depth_to_store(page, token=token)
        assert depth is not None
        depths[page] = depth
        assert finish(frontier, page, token=token, depth=depth)
    return depths


def _breadth_first(graph: dict[str, list[str]], limit: int) -> dict[str, int]:
    depths, level = {"0": 0}, ["0"]
    for depth in range(1, limit + 1):
        level = list(dict.fromkeys(link for page in level for link in graph[page]))
        level = [page for page in level if page not in depths]
        depths.update(dict.fromkeys(level, depth))
    return depths
