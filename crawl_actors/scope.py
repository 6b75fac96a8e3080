"""Which URLs a crawl may visit (pure)."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from crawl_actors.urls import canonical_url

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_NOT_IN_A_HOST: Final = re.compile(r"[\s/\\?#@%]")
_PORT: Final = re.compile(r":(\d+)$")
_SITE: Final = re.compile(r"(https?)://(\[[^\]]*\]|[^/:]*)(?::(\d+))?")


class _HostRule(NamedTuple):
    host: str
    port: int | None
    subdomains: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the web that a crawl may visit: everything that one entry of *allow* covers.

    | entry                       | covers                                                     |
    |-----------------------------|------------------------------------------------------------|
    | `docs.example.com`          | this host, on any port, http and https                     |
    | `docs.example.com:8080`     | this host on this port (80 is http's own, 443 https's)     |
    | `*.example.com`             | every host below, not `example.com` itself; with or        |
    |                             | without a port                                             |
    | `https://example.com/docs/` | URLs whose normal form begins with this one's: without the |
    |                             | last slash it would cover `/docs-old` too                  |

    Raises:
        ValueError: When an entry is none of these; the text says which and why.
    """

    allow: tuple[str, ...]
    _hosts: tuple[_HostRule, ...] = field(init=False, repr=False, compare=False)
    _prefixes: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.allow, str):
            raise ValueError(
                f"allow must be a tuple of entries, not the single text {self.allow!r}"
            )
        prefixes = [entry for entry in self.allow if "://" in entry]
        hosts = [entry for entry in self.allow if "://" not in entry]
        object.__setattr__(self, "allow", tuple(self.allow))
        object.__setattr__(self, "_hosts", tuple(map(_host_rule, hosts)))
        object.__setattr__(self, "_prefixes", tuple(map(_prefix, prefixes)))

    @classmethod
    def for_seeds(cls, seeds: Iterable[str]) -> Self:
        """The scope of the hosts that *seeds* are on, each with its exact port.

        A seed on a default port brings both of them, 80 and 443: sites move from http to https.

        Raises:
            ValueError: When a seed is not a valid http or https URL.
        """
        allow: list[str] = []
        for seed in seeds:
            canonical = canonical_url(seed)
            if canonical is None:
                raise ValueError(f"seed {seed!r} is not a valid http or https URL")
            scheme, host, port = _site_parts(canonical)
            is_default = port == _DEFAULT_PORTS[scheme]
            allow += [f"{host}:{one}" for one in ((80, 443) if is_default else (port,))]
        return cls(tuple(dict.fromkeys(allow)))

    def contains(self, url: str) -> bool:
        """True when *url* may be visited; False too when it is no http or https URL."""
        canonical = canonical_url(url)
        if canonical is None:
            return False
        if canonical.startswith(self._prefixes):
            return True
        _, host, port = _site_parts(canonical)
        return any(_covers(rule, host, port) for rule in self._hosts)


def _covers(rule: _HostRule, host: str, port: int) -> bool:
    if rule.port not in (None, port):
        return False
    return host.endswith(f".{rule.host}") if rule.subdomains else host == rule.host


def _site_parts(canonical: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL in normal form."""
    match = _SITE.match(canonical)
    if match is None:
        raise ValueError(f"not a URL in normal form: {canonical!r}")
    scheme, host, port = match.groups()
    return scheme, host, int(port) if port else _DEFAULT_PORTS[scheme]


def _prefix(entry: str) -> str:
    canonical = canonical_url(entry)
    if canonical is None:
        raise ValueError(
            f"scope entry {entry!r} is not a valid http or https URL, "
            "such as 'https://example.com/docs/'"
        )
    return canonical


def _host_rule(entry: str) -> _HostRule:
    subdomains = entry.startswith("*.")
    name = entry.removeprefix("*.")
    if not name or _NOT_IN_A_HOST.search(name) or "*" in name:
        raise _invalid_host(entry)
    explicit = _PORT.search(name)
    canonical = canonical_url(f"http://{name}/")
    if canonical is None or (name.endswith(":") and explicit is None):
        raise _invalid_host(entry)
    _, host, port = _site_parts(canonical)
    if subdomains and _is_address(host):
        raise ValueError(f"scope entry {entry!r}: an address has no subdomains")
    return _HostRule(host, port if explicit else None, subdomains)


def _invalid_host(entry: str) -> ValueError:
    return ValueError(
        f"scope entry {entry!r} is not a host ('docs.example.com', 'docs.example.com:8080'), a "
        "wildcard ('*.example.com') or the start of a URL ('https://example.com/docs/')"
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
