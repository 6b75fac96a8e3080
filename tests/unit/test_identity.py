import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dramatiq_streams import identity
from dramatiq_streams.identity import Identity, host_id
from tests.support.processes import start_process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are told apart by Linux's /proc"
)

#: What a process prints about itself: its host, and its identity.
_SELF = (
    "from dramatiq_streams.identity import Identity, host_id;"
    " print(host_id('address'), Identity.own())"
)


def own() -> Identity:
    found = Identity.own()
    assert found is not None
    return found


def _started(pid: int) -> int:
    state = identity._state(pid)
    assert state is not None
    return state[1]


def in_child(deed: Callable[[], bool]) -> bool:
    """What *deed* returns in a process of its own."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = 0 if deed() else 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code < 2
    return code == 0


def test_this_process_is_there() -> None:
    assert not own().is_gone
    assert own().pid == os.getpid()


def test_process_that_has_ended_is_gone(tmp_path: Path) -> None:
    process = start_process(["/bin/sleep", "60"], log=tmp_path / "log", cwd=tmp_path)
    running = Identity(process.pid, _started(process.pid))
    was_gone = running.is_gone

    process.kill()
    process.wait(10)

    assert not was_gone
    assert running.is_gone


def test_process_that_has_ended_and_that_nobody_has_waited_for_is_gone(tmp_path: Path) -> None:
    process = start_process(["/bin/sleep", "60"], log=tmp_path / "log", cwd=tmp_path)
    defunct = Identity(process.pid, _started(process.pid))

    process.kill()

    wait_until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "Z")
    assert defunct.is_gone
    process.wait(10)


def test_pid_that_is_used_again_is_another_process() -> None:
    assert replace(own(), started=own().started - 1).is_gone


def test_child_is_another_process_than_its_parent() -> None:
    parent = own()

    assert in_child(lambda: own() != parent and not parent.is_gone)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("ended", [False, True])
def test_process_of_another_user_is_judged_right(ended: bool) -> None:
    other = replace(own(), started=0) if ended else own()

    def is_gone_for_nobody() -> bool:
        os.setgid(65_534)
        os.setuid(65_534)
        return other.is_gone

    assert in_child(is_gone_for_nobody) is ended


def test_pid_that_no_system_has_is_no_proof() -> None:
    assert not Identity(2**70, 1).is_gone


def test_process_that_proc_hides_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    me = own()
    monkeypatch.setattr(identity, "_state", lambda pid: None)

    assert not me.is_gone
    assert Identity.own() is None


@pytest.mark.parametrize("name", ["a b", "a) Z 1 (b", ")", "((", "\\n"])
def test_name_of_a_process_may_be_anything(name: str) -> None:
    def is_read() -> bool:
        before = own()
        Path("/proc/self/comm").write_text(name)
        return own() == before

    assert in_child(is_read)


def test_identity_is_read_back_as_it_was_written() -> None:
    assert Identity.parse(str(own())) == own()


@pytest.mark.parametrize("text", ["", "1", "1 ", " 1", "1 2 3", "-1 2", "1.0 2", "a b", "1 ²"])
def test_anything_else_is_no_identity(text: str) -> None:
    assert Identity.parse(text) is None


def test_host_has_one_name_for_each_address() -> None:
    assert host_id("10.0.0.1") == host_id("10.0.0.1") != host_id("10.0.0.2")


def test_host_without_proc_has_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(identity, "_BOOT_ID", tmp_path / "missing")
    host_id.cache_clear()

    assert host_id("address") is None
    host_id.cache_clear()


def _in_namespace(*options: str) -> list[str]:
    program = shutil.which("unshare")
    if program is None or os.geteuid() != 0:
        pytest.skip("another pid namespace takes util-linux's unshare, and root")
    command = [program, "--pid", "--fork", *options, sys.executable, "-c", _SELF]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    if "Operation not permitted" in done.stderr:
        pytest.skip("this system does not permit another pid namespace")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_another_pid_namespace_is_another_host() -> None:
    host, pid, started = _in_namespace("--mount-proc")

    assert host != host_id("address")
    assert pid == "1"
    assert started != "0"


def test_pid_that_means_another_process_in_proc_names_nobody() -> None:
    host, *told = _in_namespace()

    assert host != host_id("address")
    assert told == ["None"]
