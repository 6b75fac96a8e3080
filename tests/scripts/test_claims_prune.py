from tests.scripts.claimed import OTHER, Claimed


def test_expired_claims_go_and_the_others_stay(claimed: Claimed) -> None:
    claimed.seed("abc", left_ms=-1)
    claimed.seed("de")

    reply = claimed.scripts.claims_prune(claims=claimed.keys.claims, place="0", limit=100)

    assert reply == [b"0", 3]
    assert claimed.owners() == {"d": OTHER, "e": OTHER}


def test_nothing_is_there_to_prune(claimed: Claimed) -> None:
    reply = claimed.scripts.claims_prune(claims=claimed.keys.claims, place="0", limit=100)

    assert reply == [b"0", 0]
    assert claimed.client.exists(claimed.keys.claims) == 0


def test_one_call_looks_at_about_as_many_as_it_is_told(claimed: Claimed) -> None:
    expired = b"other." + (1).to_bytes(6, "big")
    names = [number.to_bytes(16, "big") for number in range(3_000)]
    claimed.client.hset(claimed.keys.claims, mapping=dict.fromkeys(names, expired))

    place, removed = claimed.scripts.claims_prune(claims=claimed.keys.claims, place="0", limit=100)

    assert place != b"0"
    assert 50 < removed < 400
