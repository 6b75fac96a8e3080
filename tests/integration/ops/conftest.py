"""The command `dramatiq-streams` on this test's namespace, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dramatiq_streams.cli import main
from tests.support.servers import Server


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of the command has printed, and its exit code."""

    code: int
    out: str
    error: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)


RunCommand = Callable[..., Run]


@pytest.fixture
def run(
    server: Server,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> RunCommand:
    """Runs the command, as in `run("stats", "--json")`, on this test's server and namespace."""
    monkeypatch.setenv("DRAMATIQ_STREAMS_URL", server.url)
    monkeypatch.setenv("DRAMATIQ_STREAMS_NAMESPACE", namespace)

    def run_command(*arguments: str) -> Run:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as end:  # argparse
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return Run(code, printed.out, printed.err)

    return run_command
