"""Known flaws of servers in what this broker needs: streams, scripts and blocked clients (pure).

Each was looked up in the release notes and the CVE records of Redis and Valkey. Flaws in commands
that the broker does not need, such as RESTORE, are left out: its user cannot run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Advisory:
    """One flaw of one product, and the first release of each line that is without it."""

    identifier: str
    product: str
    flaw: str
    fixed: tuple[str, ...]
    since: str = "0"
    #: Only servers whose `maxmemory-clients` is not 0 have it.
    needs_client_eviction: bool = False

    def concerns(self, version: str, *, evicts_clients: bool) -> bool:
        """Whether a server of this *version* has the flaw."""
        number = parsed(version)
        if not number or number < parsed(self.since):
            return False
        if self.needs_client_eviction and not evicts_clients:
            return False
        fixes = [parsed(fix) for fix in self.fixed]
        of_its_line = [fix for fix in fixes if fix[:2] == number[:2]]
        # A line that came after all fixes has them; one that was left without never got them.
        return number < of_its_line[0] if of_its_line else number < max(fixes)


def parsed(version: str) -> Version:
    """The numbers of a *version* such as "7.2.11"; empty when it is none."""
    numbers = version.split("-", maxsplit=1)[0].split(".")
    return tuple(map(int, numbers)) if all(number.isdigit() for number in numbers) else ()


def concerning(product: str, version: str, *, evicts_clients: bool) -> Sequence[Advisory]:
    """The advisories that a server is to be upgraded for, oldest first."""
    return [
        advisory
        for advisory in ADVISORIES
        if advisory.product == product and advisory.concerns(version, evicts_clients=evicts_clients)
    ]


_LUA_BIT = "a script can overflow the stack through Lua's bit library"
_LUA_COLLECTOR = "a script can run machine code through Lua's garbage collector"
_LUA_PARSER = "a script can run machine code through Lua's parser"
_OUTPUT = "a client without a password can fill the memory with unread replies"

ADVISORIES: tuple[Advisory, ...] = (
    Advisory(
        "CVE-2022-31144",
        "redis",
        "XAUTOCLAIM can overflow the heap",
        fixed=("7.0.4",),
        since="7.0.0",
    ),
    Advisory(
        "CVE-2022-35951",
        "redis",
        "XAUTOCLAIM can overflow the heap through its COUNT",
        fixed=("7.0.5",),
        since="7.0.0",
    ),
    Advisory("CVE-2024-31449", "redis", _LUA_BIT, fixed=("6.2.16", "7.2.6", "7.4.1")),
    Advisory("CVE-2024-31449", "valkey", _LUA_BIT, fixed=("7.2.7", "8.0.1")),
    Advisory("CVE-2024-46981", "redis", _LUA_COLLECTOR, fixed=("6.2.17", "7.2.7", "7.4.2")),
    Advisory("CVE-2024-46981", "valkey", _LUA_COLLECTOR, fixed=("7.2.8", "8.0.2")),
    Advisory("CVE-2025-21605", "redis", _OUTPUT, fixed=("6.2.18", "7.2.8", "7.4.3")),
    Advisory("CVE-2025-21605", "valkey", _OUTPUT, fixed=("7.2.9", "8.0.3", "8.1.1")),
    Advisory(
        "CVE-2025-49844",
        "redis",
        _LUA_PARSER,
        fixed=("6.2.20", "7.2.11", "7.4.6", "8.0.4", "8.2.2"),
    ),
    Advisory("CVE-2025-49844", "valkey", _LUA_PARSER, fixed=("7.2.11", "8.0.6", "8.1.4")),
    Advisory(
        "CVE-2025-62507",
        "redis",
        "XACKDEL can overflow the stack",
        fixed=("8.2.3",),
        since="8.2.0",
    ),
    Advisory(
        "CVE-2026-23479",
        "redis",
        "evicting a blocked client can run machine code",
        fixed=("7.2.14", "7.4.9", "8.2.6", "8.4.3", "8.6.3"),
        since="7.2.0",
        needs_client_eviction=True,
    ),
    Advisory(
        "CVE-2026-130822",
        "valkey",
        "evicting a client that wakes blocked ones can crash the server",
        fixed=("7.2.16", "8.0.13", "8.1.12", "9.0.8", "9.1.4"),
        needs_client_eviction=True,
    ),
)
