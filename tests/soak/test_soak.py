"""Everything at once: `SOAK_SECONDS` and `SOAK_SEED` say for how long, and which faults."""

import os
import secrets
from pathlib import Path

import pytest

from tests.soak.report import report
from tests.soak.soak import Plan, Soak
from tests.support.servers import Server

SECONDS = float(os.environ.get("SOAK_SECONDS", "20"))
#: What may come on top: starting, draining, stopping.
REST_SECONDS = 400


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + REST_SECONDS)
def test_every_message_ends_once_whatever_happens(own_server: Server, tmp_path: Path) -> None:
    seed = int(os.environ.get("SOAK_SEED") or secrets.randbelow(1_000_000))
    plan = Plan(
        seconds=SECONDS,
        seed=seed,
        processes=int(os.environ.get("SOAK_PROCESSES", "4")),
    )

    result = Soak(plan, own_server, tmp_path).run()

    text = report(result)
    (tmp_path / "report.txt").write_text(text)
    print(text)  # noqa: T201
    assert not result.complaints, text
    assert not result.account.wrongs, text
    assert result.account.total("acked", outcome="sent") > SECONDS
