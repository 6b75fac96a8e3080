"""Known flaws of servers in what this broker needs: streams, scripts and blocked clients (pure).

Each was looked up in the CVE records and in the release notes of Redis and Valkey. Comments name
the notes that were seen, and in parentheses releases of the same day whose notes were not.

Left out are flaws in what the broker's user cannot run or does not use: RESTORE, CLIENT KILL,
HyperLogLog, modules, the cluster bus, TLS and RDMA of the server, scripts on replicas. Of flaws
that the same releases mend, the worst stands for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Advisory:
    """One flaw of one product, and the first release of each line that is without it."""

    #: Its number as a CVE, or where it has none, that of the advisory or of the fix.
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
_EVICTED_BLOCKED = "evicting a blocked client can run machine code"

ADVISORIES: tuple[Advisory, ...] = (
    # Redis 7.0.4.
    Advisory(
        "CVE-2022-31144",
        "redis",
        "XAUTOCLAIM can overflow the heap",
        fixed=("7.0.4",),
        since="7.0.0",
    ),
    # Redis 7.0.5.
    Advisory(
        "CVE-2022-35951",
        "redis",
        "XAUTOCLAIM can overflow the heap through its COUNT",
        fixed=("7.0.5",),
        since="7.0.0",
    ),
    # Redis 6.2.16, 7.2.6, 7.4.1; Valkey 8.0.1 (7.2.7).
    Advisory("CVE-2024-31449", "redis", _LUA_BIT, fixed=("6.2.16", "7.2.6", "7.4.1")),
    Advisory("CVE-2024-31449", "valkey", _LUA_BIT, fixed=("7.2.7", "8.0.1")),
    # Redis 6.2.17, 7.2.7, 7.4.2; Valkey 8.0.2 (7.2.8).
    Advisory("CVE-2024-46981", "redis", _LUA_COLLECTOR, fixed=("6.2.17", "7.2.7", "7.4.2")),
    Advisory("CVE-2024-46981", "valkey", _LUA_COLLECTOR, fixed=("7.2.8", "8.0.2")),
    # Redis 7.4.3 (6.2.18, 7.2.8); Valkey 8.0.3 (7.2.9, 8.1.1).
    Advisory("CVE-2025-21605", "redis", _OUTPUT, fixed=("6.2.18", "7.2.8", "7.4.3")),
    Advisory("CVE-2025-21605", "valkey", _OUTPUT, fixed=("7.2.9", "8.0.3", "8.1.1")),
    # Redis 6.2.20, 7.2.11, 7.4.6, 8.0.4, 8.2.2; Valkey 7.2.11, 8.0.6, 8.1.4, 9.0.0-rc3.
    # They mend CVE-2025-46817, CVE-2025-46818 and CVE-2025-46819 of scripts, too.
    Advisory(
        "CVE-2025-49844",
        "redis",
        _LUA_PARSER,
        fixed=("6.2.20", "7.2.11", "7.4.6", "8.0.4", "8.2.2"),
    ),
    Advisory("CVE-2025-49844", "valkey", _LUA_PARSER, fixed=("7.2.11", "8.0.6", "8.1.4")),
    # Redis 8.2.3.
    Advisory(
        "CVE-2025-62507",
        "redis",
        "XACKDEL can overflow the stack",
        fixed=("8.2.3",),
        since="8.2.0",
    ),
    # Valkey 7.2.12, 8.0.7, 8.1.6, 9.0.3; by its CVE record 9.0.2 is without it already.
    Advisory(
        "CVE-2025-67733",
        "valkey",
        "a script can forge replies through the text of an error",
        fixed=("7.2.12", "8.0.7", "8.1.6", "9.0.3"),
    ),
    # Valkey 9.0.3.
    Advisory(
        "CVE-2026-27623",
        "valkey",
        "a client without a password can end the server with an empty request",
        fixed=("9.0.3",),
        since="9.0.0",
    ),
    # Redis 7.4.9, 8.2.6, 8.4.3, 8.6.3 (7.2.14).
    Advisory(
        "CVE-2026-23479",
        "redis",
        _EVICTED_BLOCKED,
        fixed=("7.2.14", "7.4.9", "8.2.6", "8.4.3", "8.6.3"),
        since="7.2.0",
        needs_client_eviction=True,
    ),
    # Valkey 7.2.13, 8.0.9 (8.0.8 was revoked), 8.1.7, 9.0.4, 9.1.0.
    Advisory(
        "CVE-2026-23479",
        "valkey",
        _EVICTED_BLOCKED,
        fixed=("7.2.13", "8.0.9", "8.1.7", "9.0.4"),
        needs_client_eviction=True,
    ),
    # Redis 7.2.16, 8.2.9 (7.4.11, 8.4.6, 8.6.6, 8.8.2); 8.10.1 lists no such fix.
    Advisory(
        "redis#15478",
        "redis",
        "XREAD and XREADGROUP can read keys that the user's ACL forbids",
        fixed=("7.2.16", "7.4.11", "8.2.9", "8.4.6", "8.6.6", "8.8.2"),
        since="7.2.0",
    ),
    # Redis 7.2.16, 8.2.9, 8.10.1 (7.4.11, 8.4.6, 8.6.6, 8.8.2).
    Advisory(
        "redis#15594",
        "redis",
        "evicting one of several clients that are blocked on a key can crash the server",
        fixed=("7.2.16", "7.4.11", "8.2.9", "8.4.6", "8.6.6", "8.8.2", "8.10.1"),
        since="7.2.0",
        needs_client_eviction=True,
    ),
    # Valkey 9.1.2; scripts became a module with 9.1.
    Advisory(
        "GHSA-fq2f-crmw-q97r",
        "valkey",
        "a client without a password can make the server use a Lua interpreter that is gone",
        fixed=("9.1.2",),
        since="9.1.0",
    ),
    # Valkey 7.2.16, 8.0.13, 8.1.12, 9.0.8, 9.1.4.
    Advisory(
        "CVE-2026-130822",
        "valkey",
        "evicting a client that wakes blocked ones can crash the server",
        fixed=("7.2.16", "8.0.13", "8.1.12", "9.0.8", "9.1.4"),
        needs_client_eviction=True,
    ),
)
