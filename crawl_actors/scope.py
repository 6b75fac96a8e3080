"""Which URLs a crawl may visit (pure)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the web that a crawl may visit: everything that one entry of *allow* covers.

    An entry is a host (`docs.example.com`, any port), a host and port (`docs.example.com:8080`), a
    wildcard (`*.example.com`: every subdomain, not `example.com` itself), or the start of a URL
    (`https://example.com/docs/`).

    Raises:
        ValueError: When an entry is none of these.
    """

    allow: tuple[str, ...]

    @classmethod
    def for_seeds(cls, seeds: Iterable[str]) -> Self:
        """The scope of the hosts that *seeds* are on, each with its exact port.

        A seed on a default port brings both of them, 80 and 443: sites move from http to https.

        Raises:
            ValueError: When a seed is not a valid http or https URL.
        """
        raise NotImplementedError

    def contains(self, url: str) -> bool:
        """True when *url* may be visited; False too when it is no http or https URL."""
        raise NotImplementedError
