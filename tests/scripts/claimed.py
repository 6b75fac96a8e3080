"""A set of claims to seed by hand, and what is in it as plain values."""

from typing import Any

from dramatiq_streams.keys import claims_keys
from tests.scripts.shard import Shard

ME, OTHER = b"me....", b"other."
TTL = 60_000


def digest(letter: str) -> bytes:
    """The digest that stands for a key called *letter*."""
    return letter.encode() * 16


class Claimed:
    """The claims called `links` on the server of *shard*, with its scripts."""

    def __init__(self, shard: Shard, namespace: str) -> None:
        self.client: Any = shard.client
        self.scripts = shard.scripts
        self.keys = claims_keys(namespace, "links")

    def seed(self, letters: str, owner: bytes = OTHER, *, left_ms: int = TTL) -> None:
        """Claim keys for *owner*, for *left_ms* from now."""
        expiry = (self.now_ms() + left_ms).to_bytes(6, "big")
        for letter in letters:
            self.client.hset(self.keys.claims, digest(letter), owner + expiry)

    def take(self, letters: str, owner: bytes = ME, *, ttl: int = TTL) -> str:
        """Run `claims_take.lua`."""
        return self.scripts.claims_take(
            claims=self.keys.claims,
            cursor=self.keys.cursor,
            owner=owner,
            ttl=ttl,
            digests=b"".join(map(digest, letters)),
        ).decode()

    def owners(self) -> dict[str, bytes]:
        """Key -> owner, also of what has expired."""
        found = self.client.hgetall(self.keys.claims)
        return {field[:1].decode(): value[:6] for field, value in found.items()}

    def left_ms(self, letter: str) -> int:
        """For how long a key is claimed."""
        value = self.client.hget(self.keys.claims, digest(letter))
        return int.from_bytes(value[6:], "big") - self.now_ms()

    def now_ms(self) -> int:
        """The server's clock."""
        seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000
