"""The benchmarks judge what they measure as they say: no lost message passes, no ratio is mixed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import page, reporting
from tests.benchmarks.contest import Contestant, Measured, Outcome, Scenario, Target, hold
from tests.benchmarks.ledger import LostOrTwice, Reader, Start, Writer, check_each_once
from tests.benchmarks.place import Place
from tests.benchmarks.spread import quantile
from tests.support.binaries import Binary

PLACE = Place(binary=Binary("none", Path("none")), messages=1, is_quick=True)
SCENARIO = Scenario(
    name="race",
    title="A race",
    contestants=(),
    metrics={"speed": ""},
    compared="speed",
    reference="hare",
    targets=(
        Target("speed", "hare", 2, over="tortoise"),
        Target("speed", "hare", 10, at_least=False),
    ),
)


@pytest.mark.parametrize(
    ("numbers", "complaint"),
    [
        ([0, 2], "1 lost, 0 run twice, 0 unknown"),
        ([0, 1, 2, 1], "0 lost, 1 run twice, 0 unknown"),
        ([0, 1, 2, 3], "0 lost, 0 run twice, 1 unknown"),
    ],
)
def test_lost_repeated_and_unknown_messages_are_no_result(
    numbers: list[int], complaint: str
) -> None:
    starts = [Start(number, 1.0, 1) for number in numbers]

    with pytest.raises(LostOrTwice, match=complaint):
        check_each_once(starts, range(3))


def test_messages_for_warming_up_are_nobodys_loss() -> None:
    check_each_once([Start(-1, 1.0, 1), Start(-1, 1.0, 1), Start(0, 1.0, 1)], range(1))


def test_ledger_reads_what_was_noted_while_it_is_written(tmp_path: Path) -> None:
    writer, reader = Writer(tmp_path), Reader(tmp_path)

    writer.note(7)
    before = reader.count()
    for number in range(100):
        writer.note(number)

    assert (before, reader.count()) == (1, 101)
    assert [one.number for one in reader.starts()] == [7, *range(100)]
    reader.close()


def test_quantile_is_the_least_value_that_enough_values_do_not_exceed() -> None:
    values = range(1, 101)

    assert [quantile(values, share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]


def test_ratios_are_of_one_round() -> None:
    outcome = _outcome(hare=[8, 60], tortoise=[4, 20])

    ratio = outcome.ratio("speed", "hare", "tortoise")

    assert ratio is not None
    assert (ratio.median, ratio.least, ratio.most) == (2.5, 2, 3)


def test_targets_are_judged_by_the_median() -> None:
    outcome = _outcome(hare=[8, 60], tortoise=[4, 20])

    verdicts = [outcome.judge(target) for target in SCENARIO.targets]

    assert [verdict and verdict[1] for verdict in verdicts] == [True, False]


def test_failed_measurement_is_reported_and_has_no_number() -> None:
    scenario = Scenario("race", "A race", (_runner("hare", 8), _runner("fox", None)), {"speed": ""})

    outcome = hold(scenario, PLACE, rounds=2, tell=lambda line: None)

    assert outcome.values("hare", "speed") == {0: 8, 1: 8}
    assert outcome.values("fox", "speed") == {}
    assert [failure.rpartition(": ")[2] for failure in outcome.failures] == ["1 lost"] * 2


def test_each_round_begins_with_another_contestant() -> None:
    told: list[str] = []
    scenario = Scenario("race", "A race", (_runner("hare", 8), _runner("fox", 9)), {"speed": ""})

    hold(scenario, PLACE, rounds=2, tell=told.append)

    assert [line.split(", ")[2].partition(":")[0] for line in told] == [
        "hare",
        "fox",
        "fox",
        "hare",
    ]


def test_page_shows_missed_targets_and_failures() -> None:
    outcome = _outcome(hare=[8], tortoise=[7])
    outcome.failures.append("race, round 1, hare: It fell. It lost\nmuch more\n1 leg.")

    report = reporting.to_json([outcome], command="", machine={}, rounds=1)
    lines = list(page.to_page(report))

    assert "| race | hare / tortoise, speed | >= 2 | 1.14 | **FAIL** |" in lines
    assert "| race | hare, speed | <= 10 | 8 | pass |" in lines
    assert "Failed: race, round 1, hare: It fell; It lost 1 leg." in lines


def _outcome(**speeds: list[float]) -> Outcome:
    outcome = Outcome(SCENARIO)
    for label, values in speeds.items():
        outcome.rounds[label] = {number: {"speed": value} for number, value in enumerate(values)}
    return outcome


def _runner(label: str, speed: float | None) -> Contestant:
    def measure(place: Place) -> Measured:
        if speed is None:
            raise LostOrTwice("1 lost")
        return {"speed": speed}

    return Contestant(label, "ours", measure)


ALONE = ("claims", "idempotency", "locks", "loss_at_failover", "unique")


@pytest.mark.parametrize("name", ALONE)
def test_benchmark_that_is_asked_for_help_measures_nothing(name: str) -> None:
    ended = _run(name, "--help")

    assert ended.returncode == 0
    assert ended.stdout.startswith("usage: ")
    assert "Run it from the root of the repository" in ended.stdout


@pytest.mark.parametrize("name", ["claims", "idempotency", "unique"])
@pytest.mark.parametrize("number", ["1", "many"])
def test_number_that_a_benchmark_cannot_use_is_named(name: str, number: str) -> None:
    ended = _run(name, number)

    assert ended.returncode == 2
    assert f"must be a whole number, 2 or more, not {number!r}" in ended.stderr
    assert "Traceback" not in ended.stderr


def _run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{name}", *arguments],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
