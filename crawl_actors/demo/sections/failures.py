"""Pages that fail: for good, for a while, or until a given time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crawl_actors.demo.builder import Builder
from crawl_actors.demo.resources import Answer, Delivery, Resource, Section

_GONE = (400, 401, 403, 404, 410, 418, 451)


def _trouble(status: int, *, retry_after: int | None = None, is_date: bool = False) -> Answer:
    body = f"<!doctype html><title>Trouble</title><p>Status {status}, for now.</p>".encode()
    return Answer(status, body=body, retry_after=retry_after, retry_after_is_date=is_date)


# What the first requests for a page get; the next one gets the page.
_HEALING: dict[str, Sequence[Answer]] = {
    "500-once": [_trouble(500)],
    "502-twice": [_trouble(502), _trouble(502)],
    "503-once": [_trouble(503)],
    "500-then-504": [_trouble(500), _trouble(504)],
    "429-seconds": [_trouble(429, retry_after=1)],
    "429-date": [_trouble(429, retry_after=1, is_date=True)],
    "503-seconds": [_trouble(503, retry_after=2)],
    "hung-up": [Answer(delivery=Delivery.HUNG_UP)],
}


_LONGEST = ("429-date", "503-seconds", "500-then-504")


def failures(builder: Builder) -> Section:
    """Every healing page links to one more, so giving up on it leaves one out."""
    resources = [*_gone(builder), *_healing(builder)]
    hopeless = _hopeless(builder)
    # Found first: these take longest, and the pauses that they ask for overlap.
    front = [hopeless.url, *(builder.url(f"/healing/{name}.html") for name in _LONGEST)]
    entrances = [
        resource.url
        for resource in resources
        if "/beyond" not in resource.url and resource.url not in front
    ]
    return Section([*resources, hopeless], entrances, front=front)


def _gone(builder: Builder) -> Iterator[Resource]:
    for status in _GONE:
        headers = [("WWW-Authenticate", 'Basic realm="demo"')] if status == 401 else []
        yield builder.failure(f"/gone/{status}.html", status, headers=headers)


def _healing(builder: Builder) -> Iterator[Resource]:
    for name, answers in _HEALING.items():
        beyond = builder.page(f"/healing/{name}/beyond.html", f"Beyond {name}")
        yield beyond
        yield builder.page(
            f"/healing/{name}.html", f"Healed: {name}", links=[beyond.url], failures=answers
        )


def _hopeless(builder: Builder) -> Resource:
    """A page that fails however often it is asked for."""
    return builder.failure("/failing/500.html", 500)
