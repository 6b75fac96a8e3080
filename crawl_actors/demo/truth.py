"""What a right crawl of the demo's site looks like, from the site alone (pure)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from hashlib import sha256

from crawl_actors.demo.resources import Answer, Delivery, Resource
from crawl_actors.demo.site import Site

RETRYABLE_STATUSES = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Limits:
    """What the crawl is told.

    Args:
        max_depth: Links from the seed to the deepest page.
        max_pages: Pages in all; None is no limit.
        max_retries: Of one page.
        deadline_s: For one answer, and *max_body_bytes* for its body.
        delay_s: Between two requests.
    """

    max_depth: int = 8
    max_pages: int | None = None
    max_retries: int = 2
    deadline_s: float = 2.5
    max_body_bytes: int = 512 * 1024
    delay_s: float = 0.01
    user_agent: str = "crawl-actors-demo/1.0"


@dataclass(frozen=True, slots=True)
class Expected:
    """How one URL is to be found after the crawl.

    *is_cut* pages have an error and no contents: they were too slow, too large or never answered.
    *is_refused* pages were never asked for, because robots.txt forbids them; that alone is known.
    *sha256* is of the body as a reader has it; None where there is nothing to keep: a redirect's
    body is for browsers that do not follow it.
    """

    url: str
    depth: int
    requests: int
    status: int | None
    is_cut: bool = False
    is_refused: bool = False
    content_type: str | None = None
    title: str | None = None
    redirect_to: str | None = None
    sha256: str | None = None


def expected_pages(site: Site, limits: Limits) -> dict[str, Expected]:
    """Every page a crawl from the site's seed has to store, by URL.

    A breadth-first walk: depth is the fewest links from the seed. A redirect is no step, so its
    target is walked before anything deeper. `Limits.max_pages` is left out: which pages come
    first is nobody's promise.
    """
    found: dict[str, Expected] = {}
    waiting = deque([(site.seed_url, 0)])
    while waiting:
        url, depth = waiting.popleft()
        resource = site.find(url)
        if resource is None or url in found:
            continue
        if url in site.closed:
            found[url] = Expected(url, depth, requests=0, status=None, is_refused=True)
            continue
        found[url] = expected = _expected(resource, depth, limits)
        if expected.is_cut or expected.status in RETRYABLE_STATUSES:
            continue
        if resource.redirect_to is not None:
            waiting.appendleft((resource.redirect_to, depth))
        if depth < limits.max_depth:
            waiting.extend((link, depth + 1) for link in resource.links)
    return found


def _expected(resource: Resource, depth: int, limits: Limits) -> Expected:
    requests, answer = _last_answer(resource, limits)
    is_cut = _is_unfinished(answer, limits) or len(answer.body) > limits.max_body_bytes
    return Expected(
        resource.url,
        depth,
        requests,
        answer.status,
        is_cut=is_cut,
        content_type=_media_type(answer),
        title=None if is_cut else resource.title,
        redirect_to=resource.redirect_to,
        sha256=None if is_cut else _hash(answer),
    )


def _last_answer(resource: Resource, limits: Limits) -> tuple[int, Answer]:
    """The number of requests it takes to be done with *resource*, and what the last one gets."""
    for number in range(1, limits.max_retries + 2):
        answer = resource.nth_answer(number)
        if not _is_unfinished(answer, limits) and answer.status not in RETRYABLE_STATUSES:
            break
    return number, answer


def _is_unfinished(answer: Answer, limits: Limits) -> bool:
    """True when the whole answer does not arrive within the deadline."""
    if answer.delivery is Delivery.SLOW:
        return answer.seconds > limits.deadline_s
    return answer.delivery is not Delivery.WHOLE


def _hash(answer: Answer) -> str | None:
    if not answer.body or answer.status in range(300, 400):
        return None
    return sha256(answer.body).hexdigest()


def _media_type(answer: Answer) -> str | None:
    if answer.content_type is None:
        return None
    return answer.content_type.partition(";")[0].strip().lower()
