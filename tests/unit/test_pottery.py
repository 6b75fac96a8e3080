"""What of pottery is used that is not public: if a release changes it, this fails first."""

import inspect
import tomllib

import pottery.redlock
from packaging.requirements import Requirement

from dramatiq_streams.middleware.idempotency.masters import Masters
from dramatiq_streams.middleware.idempotency.notepad import Notepad
from dramatiq_streams.middleware.idempotency.redlock import Redlock
from dramatiq_streams.middleware.idempotency.shipped import ShippedRedlock
from dramatiq_streams.middleware.idempotency.votes import LockCommand
from tests.docs.pages import ROOT

ACQUIRED = """
                if redis.call('get', KEYS[1]) == ARGV[1] then
                    return redis.call('{}', KEYS[1]{})
                else
                    return 0
                end
            """


def noted(name: str) -> LockCommand:
    """What pottery's method *name* would send, for a lock on "k" of 3000 ms that "me" holds."""
    lock = Redlock("k", masters=Masters(["redis://localhost"]), lease_ms=3_000)
    lock._uuid = "me"
    notepad = Notepad()
    getattr(lock, name)(notepad)
    return notepad.command


def test_version_is_pinned_to_the_one_that_was_read() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (pin,) = [each for each in project["dependencies"] if each.startswith("pottery")]

    allowed = Requirement(pin).specifier

    assert allowed.contains("3.0.1")
    assert not allowed.contains("3.1.0")


def test_acquiring_is_one_set() -> None:
    assert noted("_Redlock__acquire_master").words == ("SET", "k", "me", "PX", 3_000, "NX")


def test_extending_and_releasing_are_scripts_that_check_the_owner() -> None:
    extend = noted("_Redlock__extend_master")
    release = noted("_Redlock__release_master")

    assert extend.words[2:] == (1, "k", "me", 3_000)
    assert release.words[2:] == (1, "k", "me")
    text = ACQUIRED.format("pexpire", ", ARGV[2]")
    assert extend.unabridged == ("EVAL", text, 1, "k", "me", 3_000)
    assert release.unabridged == ("EVAL", ACQUIRED.format("del", ""), 1, "k", "me")


def test_drift_is_a_hundredth_of_the_lease_and_two_milliseconds() -> None:
    lock = Redlock("k", masters=Masters(["redis://localhost"]), lease_ms=3_000)

    assert abs(lock._Redlock__drift() * 1000 - 32) < 0.1  # type: ignore[attr-defined]


def test_everything_that_starts_a_pool_is_replaced() -> None:
    starting = {
        name
        for name, member in vars(ShippedRedlock).items()
        if inspect.isfunction(member) and "BailOutExecutor" in member.__code__.co_names
    }

    # The last two are only called by `acquire`, under their mangled names.
    private = {"_acquire_masters", "_Redlock__acquire_masters"}
    assert starting - set(vars(Redlock)) == private | {"_Redlock__release"}


def test_everything_public_is_replaced_or_harmless() -> None:
    public = {name for name in dir(pottery.redlock.Redlock) if not name.startswith("_")}

    assert public - set(vars(Redlock)) == {
        "auto_release_time",
        "context_manager_blocking",
        "context_manager_timeout",
        "masters",
        "num_extensions",
        "raise_on_redis_errors",
    }
    assert {"__enter__", "__exit__"} <= set(vars(Redlock))
