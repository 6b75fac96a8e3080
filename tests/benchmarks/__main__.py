"""The benchmarks' command: `python -m tests.benchmarks drain1 enqueue --rounds 3`."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import machine, page, reporting
from tests.benchmarks.contest import Outcome, hold
from tests.benchmarks.place import Place, choose_binary
from tests.benchmarks.rabbitmq_server import RabbitmqMissing, RabbitmqServer
from tests.benchmarks.registry import SYSTEMS
from tests.benchmarks.scenarios import SCENARIOS
from tests.support.binaries import NAMES

_ROUNDS, _QUICK_ROUNDS = 5, 2
_MESSAGES, _QUICK_MESSAGES = 20_000, 5_000


def main(arguments: Sequence[str]) -> int:
    """Run the chosen scenarios and print what came out; 1 if a message was lost or run twice."""
    options = _options(arguments)
    # Ends in good order: RabbitMQ would outlive it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    report = json.loads(options.from_json.read_text()) if options.from_json else _run(options)
    if options.page:
        options.page.write_text("\n".join(page.to_page(report)))
    sys.stdout.write("\n".join(["", *page.to_markdown(report)]))
    return int(any(scenario["failures"] for scenario in report["scenarios"]))


def _run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure, and write the values down after each scenario."""
    rounds = options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS)
    names = options.scenarios or list(SCENARIOS)
    outcomes: list[Outcome] = []
    with contextlib.ExitStack() as stack:
        place = Place(
            binary=choose_binary(options.server),
            messages=options.messages or (_QUICK_MESSAGES if options.quick else _MESSAGES),
            is_quick=options.quick,
            chosen=options.systems or frozenset(SYSTEMS),
        )
        place.rabbitmq = _rabbitmq(stack, place, names)
        about = machine.describe(
            place.binary.version(), place.rabbitmq.version if place.rabbitmq else None
        )
        for name in names:
            outcomes.append(hold(SCENARIOS[name], place, rounds=rounds, tell=_tell))
            report = reporting.to_json(
                outcomes,
                command=_command(options),
                machine=about,
                rounds=rounds,
                quick=options.quick,
            )
            if options.json:
                options.json.write_text(json.dumps(report, indent=1) + "\n")
    return report


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := set(options.scenarios) - SCENARIOS.keys():
        parser.error(f"no scenario {', '.join(sorted(unknown))}: there are {', '.join(SCENARIOS)}")
    return options


def _command(options: argparse.Namespace) -> str:
    """What measures the same again, wherever the results go."""
    words = list(options.scenarios)
    for name in ("rounds", "messages", "server"):
        if value := getattr(options, name):
            words += [f"--{name}", str(value)]
    if options.quick:
        words.append("--quick")
    if options.systems:
        words += ["--systems", ",".join(name for name in SYSTEMS if name in options.systems)]
    return shlex.join(["tox", "-e", "bench", *(["--", *words] if words else [])])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.benchmarks", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--rounds", type=int, help=f"default {_ROUNDS}, quick {_QUICK_ROUNDS}")
    parser.add_argument("--messages", type=int, help=f"of a drain; default {_MESSAGES:,}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and messages")
    parser.add_argument("--systems", type=_systems, help=f"only these of {','.join(SYSTEMS)}")
    parser.add_argument(
        "--server", choices=NAMES, help="default Debian's Redis 7.0, if it is there"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where all values go")
    parser.add_argument("--page", type=Path, metavar="FILE", help="where the page of results goes")
    parser.add_argument(
        "--from-json", type=Path, metavar="FILE", help="measure nothing, and show these values"
    )
    return parser


def _systems(text: str) -> frozenset[str]:
    names = frozenset(text.split(","))
    if unknown := names - SYSTEMS.keys():
        raise argparse.ArgumentTypeError(f"no system {', '.join(sorted(unknown))}")
    return names


def _rabbitmq(
    stack: contextlib.ExitStack, place: Place, names: Sequence[str]
) -> RabbitmqServer | None:
    needed = {one.system for name in names for one in SCENARIOS[name].contestants}
    if "rabbitmq" not in needed & place.chosen:
        return None
    try:
        return stack.enter_context(RabbitmqServer())
    except RabbitmqMissing as error:
        _tell(f"RabbitmqBroker is not measured: {error}")
        return None


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
