"""Prolonging what runs."""

from tests.scripts.recorded import TTL_MS, Recorded


def test_running_key_gets_another_lease(recorded: Recorded) -> None:
    recorded.seed("running", lease_ms=100)
    recorded.client.pexpire(recorded.record, 20_000)

    lost = recorded.keep(("k", "7"))

    assert lost == []
    assert recorded.fields()["lease_end_ms"] == "later"
    assert recorded.held() == {"k": "later"}
    assert recorded.ttl_ms() == TTL_MS


def test_what_somebody_else_has_is_lost_and_stays_as_it_is(recorded: Recorded) -> None:
    recorded.seed("running", lease_ms=100)
    before = recorded.fields(), recorded.held()

    lost = recorded.keep(("gone", "1"), ("k", "6"))

    assert lost == [2]
    assert (recorded.fields(), recorded.held()) == before
    assert recorded.fields("gone") == {}


def test_what_an_operator_has_released_is_lost(recorded: Recorded) -> None:
    recorded.seed("pending")

    assert recorded.keep(("k", "7")) == [1]
