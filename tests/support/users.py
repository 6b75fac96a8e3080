"""Who the brokers under test are on the server: its default user, or the one of the security page.

The environment variable `TEST_USER` says which. What the tests themselves look with, such as the
fixture `redis_client`, may do everything either way.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from dramatiq_streams.options import DEFAULT_NAMESPACE
from tests.docs.pages import page

LEAST_PRIVILEGE = "least-privilege"

# Rights beside those of every broker, named after the page that tells what needs them.
IDEMPOTENCY = "suppress-duplicates.md"
CLAIMS = "claim-many-keys.md"

_PAGE = "docs/explanation/security.md"
_NAME = "queues"
_PASSWORD = "a-password-of-yours"
_KEYS = f"~{{{DEFAULT_NAMESPACE}:*"
# The namespaces of the fixture `namespace`.
_KEYS_OF_TESTS = "~{test-*:*"
# Those of the tests of locks alone, which have no namespace.
_LOCKS_OF_TESTS = "~{locks}:*"


@dataclass(frozen=True, slots=True)
class User:
    """A user of a server, with the rules of ACL SETUSER."""

    name: str
    password: str
    rules: tuple[str, ...]

    @property
    def credentials(self) -> str:
        """Name and password, as in a URL."""
        return f"{self.name}:{self.password}@"

    def line(self, server: str) -> str:
        """The line of the configuration file for the server called *server* in `binaries`."""
        unknown = {"+client|setinfo"} if server == "redis70" else set()
        return " ".join(("user", self.name, *(rule for rule in self.rules if rule not in unknown)))

    def granted(self) -> set[str]:
        """The commands it may run, as in `client|info`."""
        return {rule.removeprefix("+") for rule in self.rules if rule.startswith("+")}


def documented_user(*keys: str) -> User:
    """The user that the security page gives to a broker; also for *keys*, as in `~{other:*`."""
    blocks = page(_PAGE).blocks
    (block,) = [block for block in blocks if block.text.startswith("ACL SETUSER")]
    command, verb, name, *rules = block.text.replace("PASSWORD", _PASSWORD).split()
    if (command, verb, name) != ("ACL", "SETUSER", _NAME) or _KEYS not in rules:
        raise ValueError(f"{_PAGE} has to give {_NAME!r} the keys {_KEYS}: {block.text}")
    return User(_NAME, _PASSWORD, (*rules, *keys))


def rights_beside(subject: str) -> list[tuple[str, ...]]:
    """Each list of rights in the one line of the security page that links to *subject*."""
    (line,) = [line for line in page(_PAGE).text.splitlines() if f"/{subject})" in line]
    return [tuple(rights.split()) for rights in re.findall(r"`(\+[^`]+)`", line)]


def lock_server_user(*keys: str) -> User:
    """The user that the security page gives to a lock server, for *keys*, as in `~{other:*`."""
    _, rights = rights_beside(IDEMPOTENCY)
    reset = ("reset", "on", f">{_PASSWORD}", "resetchannels", "-@all")
    return User("locks", _PASSWORD, (*reset, *keys, *rights))


def user_under_test() -> User | None:
    """The user that `TEST_USER` names, or None for the server's default user."""
    return documented_user(_KEYS_OF_TESTS) if _is_least_privilege() else None


def lock_server_user_under_test() -> User | None:
    """The same for a server that does nothing but grant locks."""
    return lock_server_user(_KEYS_OF_TESTS, _LOCKS_OF_TESTS) if _is_least_privilege() else None


def _is_least_privilege() -> bool:
    named: str = os.environ.get("TEST_USER", "")
    allowed: Sequence[str] = ("", "default", LEAST_PRIVILEGE)
    if named not in allowed:
        raise ValueError(f"TEST_USER is {named!r}; it has to be default or {LEAST_PRIVILEGE}")
    return named == LEAST_PRIVILEGE
