"""`dramatiq-streams` with wrong arguments, and on what strangers have stored: never a traceback."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_streams.cli import main
from tests.contract.queue_state import QueueState
from tests.properties.bad_input.fuzzing import FACTOR, fuzzed, json_values, odd_text, picked
from tests.properties.bad_input.test_bodies import FIELDS, Strangers, places, written
from tests.support.servers import Server

pytestmark = pytest.mark.timeout(60 * FACTOR)

#: Exit codes: all is well, the answer is no, wrong usage.
TOLD = {0, 1, 2}

LOOKING = [
    ["stats"],
    ["workers"],
    ["messages", "ls", "--state", "ready"],
    ["messages", "ls", "--state", "pending"],
    ["messages", "ls", "--state", "delayed", "--limit", "3"],
    ["messages", "show", "id"],
    ["messages", "show", ""],
    ["messages", "cancel", "none", "--dry-run"],
    ["dlq", "ls"],
    ["dlq", "show", "--text", "x"],
    ["dlq", "ls", "--actor", "work", "--id", "id"],
    ["dlq", "export"],
    ["dlq", "redrive", "--all", "--dry-run"],
]


@pytest.fixture(autouse=True)
def _place(server: Server, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAMATIQ_STREAMS_URL", server.url)
    monkeypatch.setenv("DRAMATIQ_STREAMS_NAMESPACE", namespace)


def run(*arguments: str) -> tuple[int, str, str]:
    """The exit code of the command, what it printed, and what it complained of."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code = main(arguments)
        except SystemExit as end:  # argparse
            code = int(end.code or 0)
    return code, out.getvalue(), error.getvalue()


def test_whatever_strangers_have_stored_is_shown(redis_client: redis.Redis, namespace: str) -> None:
    queue = QueueState(redis_client, namespace)
    strangers = Strangers(redis_client, queue)
    letters = st.dictionaries(
        picked([b"m", b"reason", b"error", b"lane", b"deliveries", b"entry", b"x"]),
        st.one_of(
            st.binary(max_size=9), picked([b"9" * 5000, "٣".encode(), b"1", b"\xff"]), json_bodies
        ),
        min_size=1,
    )
    delayed = st.tuples(
        st.binary(min_size=1, max_size=5), st.binary(max_size=9), st.floats(allow_nan=False)
    )

    @fuzzed(8)
    @given(
        st.lists(st.tuples(written, places), max_size=20),
        st.lists(letters, max_size=10),
        st.lists(delayed, max_size=10),
        st.lists(picked(LOOKING), min_size=2, max_size=2),
    )
    def check(entries: Any, dead: Any, held: Any, looking: list[list[str]]) -> None:
        redis_client.delete(*queue.keys.lanes, queue.keys.dead, queue.keys.delayed)
        for entry, place in entries:
            strangers.write(entry, place)
        for fields in dead:
            redis_client.xadd(queue.keys.dead, fields)
        for name, packed, score in held:
            redis_client.hset(queue.keys.delayed_messages, name, packed)
            redis_client.zadd(queue.keys.delayed, {name: score})
        for arguments in looking:
            for more in ([], ["--json"]):
                code, out, error = run(
                    *arguments, "--queue", "default", "--lanes", "high,default,low", *more
                )
                assert code in (0, 1), (arguments, error)
                assert "--json" not in more or arguments[1:2] == ["export"] or json.loads(out)

    check()


json_bodies = st.dictionaries(picked(list(FIELDS)), json_values).map(
    lambda changes: json.dumps({**FIELDS, **changes}).encode()
)
WRONG = [
    *(["--queue", name] for name in ("", "a b", "{}", "a:b", "\ud800", "x.DQ", "x" * 256)),
    *(["--namespace", name] for name in ("", "a b", "{}", "\ud800", "x" * 129)),
    *(["--url", url] for url in ("", "x", "http://h", "redis://h:0", "redis://h/x", "unix://")),
    *(["--lanes", lanes] for lanes in ("", ",", "a,a", "a b", "\ud800")),
    *(["--import", name] for name in ("", ".", "none.such", "a b", "\0", "this-is-none")),
    *(["--after", after] for after in ("x", "1", "1-", "٣-1", "9" * 30 + "-0", "1-0 ", "", "-")),
    *(["--limit", limit] for limit in ("", "0", "-1", "x", "1.5", "9" * 5000, "nan")),
    *(["--older-than", age] for age in ("", "5", "x", "-1s", "1y", "9" * 400 + "d", "nans")),
    ["--none-such"],
]
WRONG_RATES = ["", "0", "-1", "x", "0.000000001/h", "1/d", "nan", "inf", "9" * 400, "0/s"]


@pytest.mark.parametrize("arguments", WRONG, ids=lambda pair: ascii(pair)[1:30])
def test_wrong_argument_is_wrong_usage(arguments: list[str]) -> None:
    code, _, error = run("dlq", "ls", *arguments)

    assert code == 2
    assert len(error) < 10_000
    assert "Traceback" not in error


@pytest.mark.parametrize("rate", WRONG_RATES, ids=lambda rate: rate[:10] or "empty")
def test_wrong_rate_is_wrong_usage(rate: str) -> None:
    code, _, error = run("dlq", "redrive", "--all", "--rate", rate)

    assert code == 2
    assert "rate" in error


@pytest.mark.parametrize("after", ["x", "high:x", "none:1-0", "high:9-" + "9" * 30, "high:٣-0"])
@pytest.mark.parametrize("state", ["ready", "pending", "delayed"])
def test_wrong_cursor_is_wrong_usage(after: str, state: str) -> None:
    place = ["--queue", "default", "--lanes", "high,default,low"]

    code, _, error = run("messages", "ls", "--state", state, "--after", after, *place)

    assert code == 2
    assert "after=" in error


def test_module_that_fails_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("1 / 0")
    (tmp_path / "garbled_module.py").write_text("def")
    monkeypatch.chdir(tmp_path)

    for name in ("broken_module", "garbled_module"):
        code, _, error = run("stats", "--import", name)
        assert code == 2
        assert f"--import {name}: " in error


def test_any_arguments_are_answered() -> None:
    arguments = st.lists(
        st.tuples(
            picked(
                [
                    *("--queue", "--lanes", "--limit", "--after", "--id", "--text", "--actor"),
                    *("--older-than", "--newer-than", "--reason", "--namespace", "--rate"),
                ]
            ),
            odd_text,
        ),
        max_size=3,
    )
    commands = picked(
        [["stats"], ["workers"], ["dlq", "ls"], ["messages", "ls"], ["messages", "show", "x"]]
    )

    @fuzzed(40)
    @given(commands, arguments)
    def check(command: list[str], pairs: list[tuple[str, str]]) -> None:
        code, _, error = run(*command, *(f"{name}={value}" for name, value in pairs))
        assert code in TOLD
        assert code == 0 or error or command[1:2] == ["show"]

    check()
