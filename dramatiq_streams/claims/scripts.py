"""The scripts of claims: one typed method for each."""

from __future__ import annotations

from typing import Any

from ..calls import ScriptCalls


class ClaimScripts(ScriptCalls):
    """What is run on a set of claimed keys."""

    def claims_prune(self, *, claims: str, place: str, limit: int) -> list[Any]:
        """Run `claims_prune.lua`."""
        return self._run("claims_prune", [claims], [place, limit])

    def claims_release(self, *, claims: str, owner: bytes, digests: bytes) -> int:
        """Run `claims_release.lua`."""
        return self._run("claims_release", [claims], [owner, digests])

    def claims_set_bits(self, *, bits: str, hashes: int, offsets: bytes) -> bytes:
        """Run `claims_set_bits.lua`."""
        return self._run("claims_set_bits", [bits], [hashes, offsets])

    def claims_take(
        self, *, claims: str, cursor: str, owner: bytes, ttl: int, digests: bytes
    ) -> bytes:
        """Run `claims_take.lua`."""
        return self._run("claims_take", [claims, cursor], [owner, ttl, digests])
