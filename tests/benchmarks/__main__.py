"""The benchmarks' command: `python -m tests.benchmarks drain1 enqueue --rounds 3`."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks import machine, reporting
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
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := set(options.scenarios) - SCENARIOS.keys():
        parser.error(f"no scenario {', '.join(sorted(unknown))}: there are {', '.join(SCENARIOS)}")
    rounds = options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS)
    names = options.scenarios or list(SCENARIOS)
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
        command = shlex.join(["tox", "-e", "bench", "--", *arguments]).removesuffix(" --")
        outcomes: list[Outcome] = []
        for name in names:
            outcomes.append(hold(SCENARIOS[name], place, rounds=rounds, tell=_tell))
            report = reporting.to_json(outcomes, command=command, machine=about, rounds=rounds)
            if options.json:
                options.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write("\n".join(["", *reporting.to_markdown(report)]))
    return int(any(outcome.failures for outcome in outcomes))


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
