"""What is wrong with a server as a place for messages: findings, pure, from facts read once.

A worker logs them when it starts; the command `doctor` prints them. None of them stops anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from dramatiq.logging import get_logger

from . import clock
from .advisories import concerning
from .errors import CommandFailed
from .executor import Executor

#: A clock further from the server's than this is found.
FARTHEST_CLOCK_MS = 5_000

_CONFIG = ("save", "maxmemory-clients")


class Level(StrEnum):
    """How bad a finding is."""

    #: Messages can vanish in ordinary operation.
    ERROR = "error"
    #: Messages can vanish, or the server be attacked, when something else goes wrong.
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that should be otherwise, and what to do about it."""

    level: Level
    #: Never changes: scripts may test for it.
    code: str
    message: str
    advice: str

    def __str__(self) -> str:
        return f"{self.message} {self.advice}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server has told of itself; None where it did not, or would not."""

    #: "redis", "valkey", or "" for something that only resembles them.
    product: str = ""
    version: str = ""
    maxmemory: int | None = None
    maxmemory_policy: str | None = None
    has_append_only_file: bool | None = None
    has_save_points: bool | None = None
    replicas: int | None = None
    #: Whether `min-replicas-to-write` is set.
    waits_for_replicas: bool | None = None
    #: Whether `maxmemory-clients` is set.
    evicts_clients: bool | None = None
    #: The server's clock minus this machine's, as far as the round trip leaves no doubt.
    clock_ahead_ms: float | None = None


def findings(facts: Facts) -> list[Finding]:
    """All that *facts* say against the server, worst first."""
    found = [
        *_on_eviction(facts),
        *_on_persistence(facts),
        *_on_replication(facts),
        *_on_version(facts),
        *_on_clocks(facts),
    ]
    return sorted(found, key=lambda finding: finding.level is not Level.ERROR)


def read_facts(executor: Executor, *, may_ask_config: bool = True) -> Facts:
    """Ask the server. What it refuses to tell is left out.

    Args:
        executor: Where to ask.
        may_ask_config: Whether to use CONFIG GET. It is refused to a user with few rights, and each
            refusal stands in the server's ACL LOG.

    Raises:
        BrokerConnectionError: The server cannot be reached or cannot serve.
    """
    information = _information(executor)
    configuration = _configuration(executor) if may_ask_config else {}
    save, clients = (configuration.get(name) for name in _CONFIG)
    is_valkey = "valkey_version" in information
    is_redis = information.get("server_name", "redis") == "redis"
    known = "redis" if is_redis and "dragonfly_version" not in information else ""
    return Facts(
        product="valkey" if is_valkey else known,
        version=information.get("valkey_version", information.get("redis_version", "")),
        maxmemory=_whole(information.get("maxmemory")),
        maxmemory_policy=information.get("maxmemory_policy"),
        has_append_only_file=_truth(information.get("aof_enabled")),
        has_save_points=None if save is None else bool(save),
        replicas=_whole(information.get("connected_slaves")),
        # The field is there only when the option is set.
        waits_for_replicas="min_slaves_good_slaves" in information if information else None,
        evicts_clients=None if clients is None else clients != "0",
        clock_ahead_ms=_clock_ahead_ms(executor),
    )


def log_findings(executor: Executor, *, may_ask_config: bool) -> None:
    """Log one warning for each finding.

    Raises:
        BrokerConnectionError: The server cannot be reached or cannot serve.
    """
    logger = get_logger(__name__)
    for finding in findings(read_facts(executor, may_ask_config=may_ask_config)):
        logger.warning("%s [%s]", finding, finding.code)


def _on_eviction(facts: Facts) -> Iterator[Finding]:
    policy = facts.maxmemory_policy
    if not facts.maxmemory or policy is None or policy == "noeviction":
        return
    is_ours = policy.startswith("allkeys")
    loss = "whole lanes of messages" if is_ours else "keys that other applications let expire"
    yield Finding(
        Level.ERROR if is_ours else Level.WARNING,
        "eviction",
        f"At its maxmemory the server deletes keys (maxmemory-policy {policy}): {loss}.",
        "Set maxmemory-policy to noeviction, so that sends fail clearly instead.",
    )


def _on_persistence(facts: Facts) -> Iterator[Finding]:
    if facts.has_append_only_file is False and facts.has_save_points is False:
        yield Finding(
            Level.WARNING,
            "persistence",
            "The server keeps nothing on disk: a restart loses every message.",
            "Set appendonly to yes (with appendfsync everysec a crash loses a second at most).",
        )


def _on_replication(facts: Facts) -> Iterator[Finding]:
    if facts.replicas and facts.waits_for_replicas is False:
        yield Finding(
            Level.WARNING,
            "replication",
            f"The server has replicas ({facts.replicas}) and accepts writes without them: a"
            " failover loses what a cut-off master accepted meanwhile.",
            "Set min-replicas-to-write to 1 and min-replicas-max-lag to 10 or less.",
        )


def _on_version(facts: Facts) -> Iterator[Finding]:
    flaws = concerning(facts.product, facts.version, evicts_clients=facts.evicts_clients or False)
    if flaws:
        listed = "; ".join(f"{flaw.identifier}: {flaw.flaw}" for flaw in flaws)
        yield Finding(
            Level.WARNING,
            "version",
            f"{facts.product.capitalize()} {facts.version} has known flaws ({listed}).",
            "Upgrade it; a distribution may have mended them without a new version number.",
        )


def _on_clocks(facts: Facts) -> Iterator[Finding]:
    ahead_ms = facts.clock_ahead_ms
    if ahead_ms is not None and abs(ahead_ms) > FARTHEST_CLOCK_MS:
        side = "behind" if ahead_ms > 0 else "ahead of"
        yield Finding(
            Level.WARNING,
            "clock",
            f"This machine's clock is {abs(ahead_ms) / 1000:.0f} s {side} the server's; an eta"
            " computed here is off by as much.",
            "Let both follow a time server (NTP).",
        )


def _information(executor: Executor) -> Mapping[str, str]:
    try:
        text = executor.execute("INFO").decode(errors="replace")
    except CommandFailed as error:
        get_logger(__name__).debug("The server does not tell about itself: %s", error)
        return {}
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value for name, colon, value in lines if colon}


def _configuration(executor: Executor) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name in _CONFIG:
        try:
            pair = executor.execute("CONFIG", "GET", name)
        except CommandFailed as error:
            get_logger(__name__).debug("The server does not tell its configuration: %s", error)
            return {}
        if pair:
            found[name] = pair[1].decode(errors="replace")
    return found


def _clock_ahead_ms(executor: Executor) -> float | None:
    begun_ms = clock.wall_ms()
    try:
        seconds, microseconds = executor.execute("TIME")
    except CommandFailed as error:
        get_logger(__name__).debug("The server does not tell its time: %s", error)
        return None
    server_ms = int(seconds) * 1000 + int(microseconds) / 1000
    # It was read at some time between the two.
    ended_ms = max(clock.wall_ms(), begun_ms)
    if begun_ms <= server_ms <= ended_ms:
        return 0.0
    return server_ms - (begun_ms if server_ms < begun_ms else ended_ms)


def _whole(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdigit() else None


def _truth(value: str | None) -> bool | None:
    return None if value is None else value == "1"
