"""What robots.txt allows (RFC 9309), cached per site and crawl for all workers.

A new crawl reads it again, for a site may have changed its mind; a continued one knows it still.

| answer to /robots.txt           | meaning                                   | kept for           |
|---------------------------------|-------------------------------------------|--------------------|
| 2xx                             | its rules, the first `MAX_ROBOTS_BYTES`   | `RULES_TTL_MS`     |
| 3xx                             | followed, to other sites too; more than   |                    |
|                                 | `MAX_REDIRECTS`: everything is allowed    | `RULES_TTL_MS`     |
| 4xx except 429                  | everything is allowed                     | `RULES_TTL_MS`     |
| 429, 5xx, unreachable, unusable | nothing is allowed for now                | `RETRY_TTL_MS`, or |
|                                 |                                           | its Retry-After    |
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, cast

import redis
from dramatiq.errors import ConnectionClosed
from dramatiq.logging import get_logger

from crawl_actors.pages import Page
from crawl_actors.robots_rules import EVERYTHING_ALLOWED, RobotsRules, product_token
from crawl_actors.urls import site_of

MAX_ROBOTS_BYTES: Final = 500 * 1024
"""How much of a robots.txt is read; rules beyond it do not count."""

MAX_REDIRECTS: Final = 5
RULES_TTL_MS: Final = 24 * 3_600_000
RETRY_TTL_MS: Final = 60_000
_MAX_RETRY_TTL_MS: Final = 3_600_000
# A process asks Redis again after this time, so rules removed there are forgotten everywhere.
_LOCAL_TTL_MS: Final = 300_000
_LOCAL_SITES: Final = 1_000
_LOCKS: Final = 64


def robots_key(namespace: str, site: str, *, crawl_id: str) -> str:
    """The key of *site*'s robots.txt as the crawl *crawl_id* has read it."""
    return f"{{{namespace}:robots:{crawl_id}:{site}}}"


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """What a site's robots.txt says about one URL.

    *delay_ms* is its Crawl-delay. *unavailable*: the rules could not be read (server error or
    unreachable), so nothing is allowed for now; ask again in a minute. *cause* then is the error
    of the request for them, as in `Page`, when one to the site itself failed.
    """

    allowed: bool
    delay_ms: int | None = None
    unavailable: bool = False
    cause: str | None = None


_UNKNOWN: Final = RobotsAnswer(allowed=False, unavailable=True)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a site for another *ttl_ms*; without *text*, robots.txt is unavailable."""

    text: str | None
    ttl_ms: int
    cause: str | None = None


class Robots:
    """Answers whether a URL may be fetched by one crawl.

    A site's robots.txt is asked for once per process at most, and not at all while Redis remembers
    the answer that another process of the crawl has got.

    Args:
        client: Redis, `decode_responses=False`.
        namespace: First part of the keys.
        crawl_id: Whose answers these are: other crawls ask for themselves.
        user_agent: The header sent; its product token is what the rules are looked up by.
        fetch: Makes one request. It should read `MAX_ROBOTS_BYTES` at least.

    Raises:
        ValueError: When *user_agent* does not begin with a product token, such as `crawl-actors`.
    """

    def __init__(
        self,
        client: "redis.Redis",
        *,
        namespace: str,
        crawl_id: str,
        user_agent: str,
        fetch: Callable[[str], Page],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._crawl_id = crawl_id
        self._token = product_token(user_agent)
        self._fetch = fetch
        self._logger = get_logger(__name__, type(self))
        self._local: dict[str, tuple[RobotsRules | RobotsAnswer, float]] = {}
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))

    def check(self, url: str) -> RobotsAnswer:
        """What robots.txt of *url*'s site says about *url*.

        Raises:
            ValueError: When *url* is not a valid http or https URL.
            ConnectionClosed: When Redis cannot be reached.
        """
        site = site_of(url)
        rules, until = self._local.get(site, (_UNKNOWN, 0.0))
        if time.monotonic() >= until:
            # Many threads want the same site at the start of a crawl: one asks, the others wait.
            with self._locks[hash(site) % _LOCKS]:
                rules = self._rules(site)
        if isinstance(rules, RobotsAnswer):
            return rules
        return RobotsAnswer(allowed=rules.allow(url), delay_ms=rules.delay_ms)

    def _rules(self, site: str) -> RobotsRules | RobotsAnswer:
        """The rules of *site*, from this process, from Redis, or from the site itself."""
        rules, until = self._local.get(site, (_UNKNOWN, 0.0))
        if time.monotonic() < until:
            return rules
        known = self._remembered(site)
        if known is None:
            known = self._ask(site)
            self._remember(site, known)
        if known.text is None:
            rules = RobotsAnswer(allowed=False, unavailable=True, cause=known.cause)
        else:
            rules = RobotsRules(known.text, token=self._token)
        self._keep(site, rules, known.ttl_ms)
        return rules

    def _keep(self, site: str, rules: RobotsRules | RobotsAnswer, ttl_ms: int) -> None:
        self._local.pop(site, None)
        self._local[site] = (rules, time.monotonic() + min(ttl_ms, _LOCAL_TTL_MS) / 1000)
        while len(self._local) > _LOCAL_SITES:
            # Another thread may be doing the same: the oldest may be gone already.
            self._local.pop(next(iter(self._local.copy())), None)

    def _remembered(self, site: str) -> _Known | None:
        key = self._key(site)
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                pipeline.get(key)
                pipeline.pttl(key)
                value, ttl_ms = pipeline.execute()
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise ConnectionClosed(error) from error
        if value is None or ttl_ms <= 0:
            return None
        try:
            fields = json.loads(value)
            return _Known(cast("str | None", fields["text"]), ttl_ms, fields.get("cause"))
        except (ValueError, TypeError, KeyError, AttributeError):
            self._logger.warning("Replacing what is no robots.txt of ours at %r.", key)
            return None

    def _remember(self, site: str, known: _Known) -> None:
        value = json.dumps({"text": known.text, "cause": known.cause})
        try:
            self._client.set(self._key(site), value, px=known.ttl_ms)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise ConnectionClosed(error) from error

    def _key(self, site: str) -> str:
        return robots_key(self._namespace, site, crawl_id=self._crawl_id)

    def _ask(self, site: str) -> _Known:
        url = f"{site}/robots.txt"
        for _ in range(MAX_REDIRECTS + 1):
            page = self._fetch(url)
            if page.redirect_to is None:
                known = _read(page)
                if known.text is None:
                    self._logger.warning(
                        "No robots.txt of %r for now: status %r, error %r.",
                        site,
                        page.status,
                        page.error,
                    )
                # Another site that cannot be reached says nothing about this one.
                return known if site_of(url) == site else replace(known, cause=None)
            url = page.redirect_to
        return _Known(EVERYTHING_ALLOWED, RULES_TTL_MS)


def _read(page: Page) -> _Known:
    """What *page*, which is no redirect, says: see the table above."""
    status = page.status or 0
    if 200 <= status < 300 and page.error in (None, "too_large"):
        return _Known(_text(page), RULES_TTL_MS)
    if 300 <= status < 500 and status != 429:
        return _Known(EVERYTHING_ALLOWED, RULES_TTL_MS)
    wait_ms = max(page.retry_after_ms or 0, RETRY_TTL_MS)
    return _Known(None, min(wait_ms, _MAX_RETRY_TTL_MS), page.error)


def _text(page: Page) -> str:
    body = page.body[:MAX_ROBOTS_BYTES]
    if len(body) < len(page.body) or page.error == "too_large":
        # Half a path would forbid more than the whole one.
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    return body.decode("utf-8-sig", "replace")
