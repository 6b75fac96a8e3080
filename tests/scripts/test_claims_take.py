import itertools

from tests.scripts.claimed import ME, OTHER, TTL, Claimed, digest


def test_key_that_nobody_has_is_claimed_for_its_time(claimed: Claimed) -> None:
    assert claimed.take("ab") == "11"

    assert claimed.owners() == {"a": ME, "b": ME}
    assert TTL - 10_000 < claimed.left_ms("a") <= TTL


def test_key_that_another_owner_has_stays_with_it(claimed: Claimed) -> None:
    claimed.seed("b")

    assert claimed.take("abc") == "101"

    assert claimed.owners() == {"a": ME, "b": OTHER, "c": ME}


def test_same_owner_gets_the_same_again_and_no_longer_than_before(claimed: Claimed) -> None:
    claimed.seed("a", ME, left_ms=30_000)

    assert claimed.take("a") == "1"

    assert claimed.left_ms("a") <= 30_000


def test_expired_claim_is_free_whoever_had_it(claimed: Claimed) -> None:
    claimed.seed("a", OTHER, left_ms=-1)
    claimed.seed("b", ME, left_ms=-1)

    assert claimed.take("ab") == "11"

    assert claimed.owners() == {"a": ME, "b": ME}
    assert claimed.left_ms("b") > 10_000


def test_expired_claims_of_other_keys_are_removed(claimed: Claimed) -> None:
    claimed.seed("xyz", left_ms=-1)
    claimed.seed("w")

    claimed.take("a")

    assert claimed.owners() == {"a": ME, "w": OTHER}


def test_when_all_were_looked_through_it_rests_for_a_quarter_of_their_time(
    claimed: Claimed,
) -> None:
    claimed.take("a")
    claimed.seed("x", left_ms=-1)

    claimed.take("b")

    assert "x" in claimed.owners()
    assert claimed.client.get(claimed.keys.cursor) == b"rest"
    assert 0 < claimed.client.pttl(claimed.keys.cursor) <= TTL / 4


def test_large_set_is_looked_through_bit_by_bit(claimed: Claimed) -> None:
    expired = b"other." + (1).to_bytes(6, "big")
    names = [number.to_bytes(16, "big") for number in range(3_000)]
    claimed.client.hset(claimed.keys.claims, mapping=dict.fromkeys(names, expired))
    left = [claimed.client.hlen(claimed.keys.claims)]

    while claimed.client.get(claimed.keys.cursor) != b"rest":
        claimed.take("abcdefghijklmnopqrstuvwxyz")
        left.append(claimed.client.hlen(claimed.keys.claims))

    assert left[-1] == 26
    # Each call looks at about twice as many as it was given; at more where they share a bucket.
    assert max(before - after for before, after in itertools.pairwise(left)) < 200


def test_set_expires_with_its_last_claim(claimed: Claimed) -> None:
    claimed.take("a", ttl=1_000_000)
    claimed.take("b", ttl=1_000)

    assert 900_000 < claimed.client.pttl(claimed.keys.claims) <= 1_000_000


def test_thousand_keys_are_one_call(claimed: Claimed) -> None:
    digests = b"".join(number.to_bytes(16, "big") for number in range(1_000))

    answer = claimed.scripts.claims_take(
        claims=claimed.keys.claims,
        cursor=claimed.keys.cursor,
        owner=ME,
        ttl=TTL,
        digests=digests,
    )

    assert answer == b"1" * 1_000
    assert claimed.client.hlen(claimed.keys.claims) == 1_000


def test_bytes_of_any_value_are_kept_as_they_are(claimed: Claimed) -> None:
    owner, odd = b"\x00\xff\r\n\x80'", bytes(range(240, 256))

    claimed.scripts.claims_take(
        claims=claimed.keys.claims, cursor=claimed.keys.cursor, owner=owner, ttl=TTL, digests=odd
    )

    assert claimed.client.hget(claimed.keys.claims, odd)[:6] == owner
    assert not claimed.client.hexists(claimed.keys.claims, digest("a"))
