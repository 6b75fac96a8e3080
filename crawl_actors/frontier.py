"""Which URLs a crawl has seen, at which depth, and which of them are still open.

A URL is *open* from the moment it is claimed until its page is stored, and a page's links are
claimed before the page is finished: a crawl is over exactly when nothing is open. Every step may be
repeated, so that a message that is delivered twice changes nothing the second time.

All keys of one crawl share one hash tag. What is sent, fetched or stored is decided elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from crawl_actors.scripts import run_commands, run_script
from crawl_actors.settings import CrawlSettings

#: How long the state of a finished crawl is kept.
FINISHED_TTL_MS = 7 * 86_400_000

#: Most URLs in one call, so that no script holds the server up.
CHUNK = 1000
_SETTLE_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Claim:
    """A URL to fetch; *hops* redirects in a row have led to it."""

    url: str
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a page's links came to: the *claims* to send, and whether relaxations are left."""

    claims: tuple[Claim, ...]
    is_settled: bool


@dataclass(frozen=True, slots=True)
class Finish:
    """What `Frontier.finish` did.

    *depth* differs from the depth that was stored when the page came nearer meanwhile; it is then
    not finished.
    """

    depth: int
    is_first: bool
    open: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a crawl is; *counts* holds pages per outcome and `bytes`.

    *is_known* is False when the server holds no such crawl, or no longer.
    """

    is_known: bool
    seen: int
    open: int
    counts: Mapping[str, int]


class Frontier:
    """The state of the crawl *crawl_id* in Redis.

    Args:
        client: A client that returns bytes.
        namespace: First part of every key.
    """

    def __init__(self, client: redis.Redis, *, namespace: str, crawl_id: str) -> None:
        self._client = client
        tag = f"{{{namespace}:crawl:{crawl_id}}}"
        self._settings = f"{tag}:settings"
        self._depths = f"{tag}:depths"
        self._open = f"{tag}:open"
        self._links = f"{tag}:links"
        self._claims = f"{tag}:claims"
        self._relax = f"{tag}:relax"
        self._nearer = f"{tag}:nearer"
        self._counts = f"{tag}:counts"
        self._resent = f"{tag}:resent"

    @property
    def keys(self) -> list[str]:
        """Every key that this crawl may have, in the order in which scripts take them."""
        return [
            *(self._depths, self._open, self._links, self._claims, self._relax),
            *(self._nearer, self._counts, self._settings, self._resent),
        ]

    def start(self, settings: CrawlSettings, seeds: Sequence[str]) -> list[str]:
        """Begin the crawl, unless it has begun; returns the seeds that have to be fetched."""
        # One call: a second one would find the crawl begun and leave its seeds out.
        if not 1 <= len(seeds) <= CHUNK:
            raise ValueError(f"a crawl needs 1 to {CHUNK} seeds, not {len(seeds)}")
        keys = [self._settings, self._depths, self._open]
        args = [json.dumps(settings.to_dict()), *seeds]
        return [seed.decode() for seed in run_script(self._client, "start", keys=keys, args=args)]

    def settings(self) -> CrawlSettings | None:
        """The settings the crawl began with, None when there is no such crawl."""
        values = run_commands(lambda: self._client.get(self._settings))
        return None if values is None else CrawlSettings.from_dict(json.loads(values))

    def hops(self, url: str) -> int | None:
        """How many redirects led to *url*, None when it is not open."""
        hops = run_commands(lambda: self._client.hget(self._open, url))
        return None if hops is None else int(hops)

    def expand(
        self,
        page: str,
        links: Sequence[str],
        *,
        token: str,
        settings: CrawlSettings,
        step: int = 1,
        hops: int = 0,
    ) -> Expansion | None:
        """Claim the *links* of *page*; the same *token* gets the same claims again.

        Args:
            token: The id of the message at work on the page; the first one owns the page.
            step: Clicks from the page to its links; 0 for a redirect.
            hops: Redirects in a row that led to the links.

        Returns:
            None when the page is finished, or another message's.
        """
        record = ""
        if settings.max_depth is not None:
            record = json.dumps({"step": step, "hops": hops, "links": list(links)})
        reply: list[Any] = []
        for first in range(0, max(len(links), 1), CHUNK):
            kept = record if first == 0 else ""
            head: list[str | int] = [page, token, step, hops, *_limits(settings), kept]
            args = [*head, *links[first : first + CHUNK]]
            reply = run_script(self._client, "expand", keys=self._claim_keys, args=args)
            if not reply:
                return None
        return _expansion(reply)

    def relax(self, page: str, *, token: str, settings: CrawlSettings) -> Expansion | None:
        """Look again at links of pages that came nearer, on behalf of *page*; see `expand`."""
        args = (page, token, *_limits(settings), CHUNK)
        reply = run_script(self._client, "relax", keys=self._claim_keys, args=args)
        return _expansion(reply) if reply else None

    def nearer(self) -> dict[str, int]:
        """Some finished pages whose stored depth is too high, with the right depth."""
        urls = run_commands(lambda: self._client.srandmember(self._nearer, _SETTLE_CHUNK))
        if not urls:
            return {}
        depths = run_commands(lambda: self._client.hmget(self._depths, urls))
        pairs = zip(urls, depths, strict=True)
        return {url.decode(): int(depth) for url, depth in pairs if depth is not None}

    def settle(self, depths: Mapping[str, int]) -> None:
        """Say that *depths* were stored."""
        args = [item for pair in depths.items() for item in pair]
        run_script(self._client, "settle", keys=[self._depths, self._nearer], args=args)

    def depth_to_store(self, page: str, *, token: str) -> int | None:
        """The depth to store *page* with, None when it is finished or another message's."""
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hget(self._depths, page)
            pipeline.hexists(self._open, page)
            pipeline.hget(self._claims, page)
            depth, is_open, claims = run_commands(pipeline.execute)
        if not is_open or (claims is not None and json.loads(claims)[0] != token):
            return None
        return int(depth)

    def finish(self, page: str, *, token: str, depth: int, outcome: str, body_bytes: int) -> Finish:
        """Close *page*, which was stored with *depth*; counted under *outcome* the first time."""
        args = (page, token, depth, outcome, body_bytes, FINISHED_TTL_MS)
        current, is_first, left = run_script(self._client, "finish", keys=self.keys, args=args)
        return Finish(depth=current, is_first=is_first == 1, open=left)

    def claims(self, page: str, *, token: str) -> list[Claim]:
        """What *token* claimed for *page* and is still open."""
        claims = run_commands(lambda: self._client.hget(self._claims, page))
        owner, *urls = json.loads(claims) if claims else [""]
        if owner != token or not urls:
            return []
        hops = run_commands(lambda: self._client.hmget(self._open, urls))
        pairs = zip(urls, hops, strict=True)
        return [Claim(url, int(count)) for url, count in pairs if count is not None]

    def progress(self) -> Progress:
        """How far the crawl is, at one instant."""
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.exists(self._settings)
            pipeline.hlen(self._depths)
            pipeline.hlen(self._open)
            pipeline.hgetall(self._counts)
            known, seen, left, counts = run_commands(pipeline.execute)
        named = {name.decode(): int(count) for name, count in counts.items()}
        return Progress(is_known=known == 1, seen=seen, open=left, counts=named)

    def open_urls(self) -> Iterator[str]:
        """The URLs that are open, in no order."""
        cursor = 0
        while True:
            scan = partial(self._client.hscan, self._open, cursor, count=CHUNK)
            cursor, found = run_commands(scan)
            yield from (url.decode() for url in found)
            if cursor == 0:
                return

    def resend(self, urls: Iterable[str]) -> dict[str, int]:
        """Free open pages whose messages have vanished.

        Returns:
            How often each was freed, this time included; without those finished meanwhile.
        """
        urls = list(urls)
        times: dict[str, int] = {}
        keys = [self._open, self._claims, self._resent]
        for first in range(0, len(urls), CHUNK):
            chunk = urls[first : first + CHUNK]
            counts = run_script(self._client, "resend", keys=keys, args=chunk)
            times.update(zip(chunk, counts, strict=True))
        return {url: count for url, count in times.items() if count}

    def delete(self) -> None:
        """Forget the crawl; messages of it that are still on their way do nothing."""
        run_commands(lambda: self._client.unlink(*self.keys))

    @property
    def _claim_keys(self) -> list[str]:
        return self.keys[:6]


def _limits(settings: CrawlSettings) -> tuple[int, int]:
    """Depth and page limit as the scripts take them."""
    no_limit = -1
    return (
        no_limit if settings.max_depth is None else settings.max_depth,
        no_limit if settings.max_pages is None else settings.max_pages,
    )


def _expansion(reply: Sequence[Any]) -> Expansion:
    left, *flat = reply
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return Expansion(
        claims=tuple(Claim(url.decode(), int(hops)) for url, hops in pairs),
        is_settled=left == 0,
    )
