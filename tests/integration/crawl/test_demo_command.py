"""`crawl-actors demo` as a user runs it: real server, real workers, real site."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.processes import start_process
from tests.support.waiting import wait_until

COMMAND = [str(Path(sys.executable).with_name("crawl-actors")), "demo"]


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the demo puts what is temporary; its name is short enough for a socket's path."""
    with TemporaryDirectory(prefix="demo-") as place:
        yield Path(place)


@pytest.fixture
def demo(tmp_path: Path, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A demo that has just been started."""
    process = start_process(
        [*COMMAND, "--pages", "20"],
        log=tmp_path / "log",
        cwd=tmp_path,
        environment={"TMPDIR": str(place)},
        new_session=True,
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()


def run_demo(
    *arguments: str, place: Path, timeout: float = 110
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def processes_that_name(path: Path) -> list[str]:
    """Command lines and environments that mention *path*: whatever a demo may have left."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue  # It has ended, or is not ours.
        if os.fsencode(path) in text and int(folder.name) != os.getpid():
            found.append(folder.name)
    return found


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_demo_finds_everything_as_it_should_be_and_leaves_nothing(place: Path) -> None:
    result = run_demo("--pages", "60", "--seed", "3", place=place)

    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"All \d\d checks are as they should be\.", result.stdout)
    assert list(place.iterdir()) == []
    wait_until(lambda: not processes_that_name(place), message="nothing is left running")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_demo_keeps_what_the_crawls_left_when_told_where(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"

    result = run_demo("--pages", "10", "--out", str(out), "--processes", "1", place=place)

    assert result.returncode == 0, result.stdout + result.stderr
    assert {path.name for path in out.iterdir()} == {"whole", "cut-off"}
    assert (out / "whole" / "pages.jsonl").stat().st_size > 0
    assert str(out) in result.stdout


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_demo_stops_everything_and_leaves_nothing(
    demo: subprocess.Popen[bytes], place: Path, number: signal.Signals, code: int
) -> None:
    wait_until(lambda: [*place.glob("*/whole/pages.sqlite")], timeout=20, message="a crawl began")

    demo.send_signal(number)
    returned = demo.wait(timeout=40)

    assert returned == code
    assert list(place.iterdir()) == []
    wait_until(lambda: not processes_that_name(place), message="nothing is left running")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--pages", "9"], "pages is 9: a site has 10 pages at least"),
        (["--processes", "0"], "processes must be 1 to 256, not 0"),
        (["--out", "/etc/passwd"], "cannot write to the output directory /etc/passwd"),
        (["--threads", "many"], "argument --threads: invalid int value: 'many'"),
    ],
)
def test_wrong_option_is_refused_by_name(arguments: list[str], sentence: str, place: Path) -> None:
    result = run_demo(*arguments, place=place)

    assert result.returncode == 2
    assert sentence in result.stderr
    assert "What the crawls left" not in result.stdout
    assert list(place.iterdir()) == []
