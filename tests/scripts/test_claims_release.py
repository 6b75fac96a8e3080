from tests.scripts.claimed import ME, OTHER, Claimed, digest


def release(claimed: Claimed, letters: str, owner: bytes = b"") -> int:
    return claimed.scripts.claims_release(
        claims=claimed.keys.claims, owner=owner, digests=b"".join(map(digest, letters))
    )


def test_released_keys_are_free_and_counted(claimed: Claimed) -> None:
    claimed.seed("ab")

    assert release(claimed, "abx") == 2

    assert claimed.owners() == {}


def test_owner_releases_only_what_is_its_own(claimed: Claimed) -> None:
    claimed.seed("a", ME)
    claimed.seed("b", OTHER)

    assert release(claimed, "ab", ME) == 1

    assert claimed.owners() == {"b": OTHER}


def test_expired_claim_goes_and_is_not_counted(claimed: Claimed) -> None:
    claimed.seed("a", left_ms=-1)

    assert release(claimed, "a") == 0

    assert claimed.owners() == {}
