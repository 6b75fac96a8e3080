"""What a crawl may do, and where its workers find their server and their output.

`CrawlSettings` travels with a crawl (it is kept in Redis beside the frontier), so every worker of
that crawl obeys the same rules. `Environment` belongs to a process and is read from its environment
variables. Nothing here talks to a server or to the disk.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

DEFAULT_USER_AGENT = "crawl-actors/0.1 (+https://pypi.org/project/dramatiq-streams/)"
DEFAULT_NAMESPACE = "crawl-actors"
DEFAULT_OUT = "crawl-out"

#: Beyond this many attempts a page is better crawled again another day.
MAX_RETRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlSettings:
    """The rules of one crawl.

    Args:
        max_depth: How many clicks from a seed a page may be; 0: the seeds alone, None: no limit.
        max_pages: How many URLs may be asked for in all, redirects included; None is no limit.
        allow: Hosts, `*.` wildcards and URL prefixes a link may lead to; empty is the seeds' hosts,
            each on its seed's port, or on both default ones.
        delay_ms: Time between two requests to one site; None is 0 for this machine's own addresses
            and 100 ms for any other. A site's Crawl-delay counts when it is longer.
        user_agent: Sent with each request, and the name looked for in robots.txt.
        deadline_ms: Longest time for one request, from connecting to the last byte.
        max_body_bytes: Longest body, after decompression; a longer one is recorded as an error.
        max_retries: How often a page is asked for again after a failure that may pass.
        obey_robots: Whether robots.txt decides what is asked for.
    """

    max_depth: int | None = None
    max_pages: int | None = None
    allow: tuple[str, ...] = ()
    delay_ms: int | None = None
    user_agent: str = DEFAULT_USER_AGENT
    deadline_ms: int = 30_000
    max_body_bytes: int = 10 * 1024 * 1024
    max_retries: int = 4
    obey_robots: bool = True

    def __post_init__(self) -> None:
        _check_number("max_depth", self.max_depth, lowest=0, optional=True)
        _check_number("max_pages", self.max_pages, lowest=1, optional=True)
        _check_number("delay_ms", self.delay_ms, lowest=0, optional=True)
        _check_number("deadline_ms", self.deadline_ms, lowest=1)
        _check_number("max_body_bytes", self.max_body_bytes, lowest=1)
        _check_number("max_retries", self.max_retries, lowest=0, highest=MAX_RETRIES)
        if isinstance(self.allow, str) or not all(isinstance(entry, str) for entry in self.allow):
            raise ValueError(f"allow must be a list of strings, not {self.allow!r}")
        if not isinstance(self.user_agent, str) or not (
            self.user_agent.isascii() and self.user_agent.isprintable()
        ):
            raise ValueError(f"user_agent must be printable ASCII, not {self.user_agent!r}")
        if not self.user_agent.strip():
            raise ValueError("user_agent must not be empty")
        if self.obey_robots not in (True, False):
            raise ValueError(f"obey_robots must be true or false, not {self.obey_robots!r}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from their JSON form; an unknown name is an error, a missing one its default."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(f"unknown crawl setting {unknown[0]!r}; there are {', '.join(known)}")
        allow = values.get("allow", ())
        return cls(**{**values, "allow": tuple(allow) if isinstance(allow, list) else allow})

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: what `from_dict` reads."""
        return {**dataclasses.asdict(self), "allow": list(self.allow)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where the processes of a crawl meet: the server, its namespace, and the output directory.

    Args:
        url: The broker's server, as `StreamsBroker` takes it.
        namespace: Begins every Redis key.
        out: Directory of `pages.sqlite`.
        lease_ms: How long after its death a worker's pages go to another worker.
    """

    url: str = f"embedded://{DEFAULT_OUT}/broker"
    namespace: str = DEFAULT_NAMESPACE
    out: Path = Path(DEFAULT_OUT)
    lease_ms: int = 10_000

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> Self:
        """Read `CRAWL_ACTORS_URL`, `_NAMESPACE`, `_OUT` and `_LEASE_MS`; empty counts as unset."""
        out = variables.get("CRAWL_ACTORS_OUT") or DEFAULT_OUT
        lease = variables.get("CRAWL_ACTORS_LEASE_MS") or "10000"
        if not (lease.isascii() and lease.isdecimal() and int(lease) > 0):
            raise ValueError(
                f"CRAWL_ACTORS_LEASE_MS must be a whole number of milliseconds, not {lease!r}"
            )
        return cls(
            url=variables.get("CRAWL_ACTORS_URL") or embedded_url(Path(out)),
            namespace=variables.get("CRAWL_ACTORS_NAMESPACE") or DEFAULT_NAMESPACE,
            out=Path(out),
            lease_ms=int(lease),
        )

    def to_variables(self) -> dict[str, str]:
        """The variables that make another process read this same environment."""
        return {
            "CRAWL_ACTORS_URL": self.url,
            "CRAWL_ACTORS_NAMESPACE": self.namespace,
            "CRAWL_ACTORS_OUT": str(self.out),
            "CRAWL_ACTORS_LEASE_MS": str(self.lease_ms),
        }


def embedded_url(out: Path) -> str:
    """The URL of the embedded server that keeps its data in *out*."""
    return f"embedded://{quote(str(out / 'broker'))}"


def _check_number(
    name: str,
    value: object,
    *,
    lowest: int,
    highest: int | None = None,
    optional: bool = False,
) -> None:
    if value is None and optional:
        return
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and lowest <= int(value) and (highest is None or int(value) <= highest):  # type: ignore[call-overload]
        return
    allowed = f"{lowest} or more" if highest is None else f"{lowest} to {highest}"
    raise ValueError(f"{name} must be a whole number, {allowed}, not {value!r}")
