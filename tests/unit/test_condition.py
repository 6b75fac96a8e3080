import pytest

from dramatiq_streams.condition import Condition


@pytest.mark.parametrize(
    "condition",
    [Condition(), Condition(0, 0), Condition(12, 0), Condition(None, 7), Condition(3_600_000, 12)],
)
def test_condition_is_read_among_other_words_as_it_was_written(condition: Condition) -> None:
    assert Condition.parse(f"7 8 {condition}") == condition


@pytest.mark.parametrize("text", ["", "7 8", "f a", "fx12 a-3", "12f 3a"])
def test_what_is_missing_is_not_known(text: str) -> None:
    assert Condition.parse(text) == Condition(None, 0)
