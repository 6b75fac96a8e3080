import pytest

from crawl_actors.running.rate import Rate


def test_rate_is_that_of_the_last_seconds_and_not_of_the_whole_run() -> None:
    rate = Rate()
    for second in range(60):
        rate.measure(100 * second, now=second)

    rates = [rate.measure(5900, now=second) for second in range(60, 75)]

    assert rates[0] == pytest.approx(90)
    assert rates[-1] == 0


def test_pages_of_an_earlier_run_do_not_count() -> None:
    rate = Rate()
    rate.measure(1000, now=0)

    assert rate.measure(1010, now=5) == pytest.approx(2)
