"""The options of sending: their limits, and the place of the spool."""

from pathlib import Path
from typing import Any

import pytest

from dramatiq_streams import InvalidOption
from dramatiq_streams.options import ProducerOptions

VALID: dict[str, Any] = {
    "enqueue_timeout": 5_000,
    "wait_replicas": 0,
    "wait_timeout": 1_000,
    "max_message_bytes": 16_777_216,
    "spool": None,
    "spool_max_messages": 100_000,
    "spool_max_bytes": 1_073_741_824,
}


@pytest.mark.parametrize(
    ("option", "least", "most"),
    [
        ("enqueue_timeout", 0, 600_000),
        ("wait_replicas", 0, 100),
        ("wait_timeout", 1, 60_000),
        ("max_message_bytes", 1_024, 536_870_912),
        ("spool_max_messages", 1, 100_000_000),
        ("spool_max_bytes", 1_024, 1024**4),
    ],
)
def test_number_is_allowed_from_its_least_to_its_most(option: str, least: int, most: int) -> None:
    for allowed in (least, most):
        ProducerOptions.of(**{**VALID, option: allowed})

    for refused in (least - 1, most + 1, None, "5000", 5000.0, True, [5000]):
        with pytest.raises(InvalidOption) as raised:
            ProducerOptions.of(**{**VALID, option: refused})
        assert f"{option}={refused!r} is not possible" in str(raised.value)
        assert f"from {least} to {most}" in str(raised.value)


@pytest.mark.parametrize("kind", [str, Path])
def test_spool_is_a_file_wherever_the_process_goes_later(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    relative = ProducerOptions.of(**{**VALID, "spool": "spool"})
    assert ProducerOptions.of(**{**VALID, "spool": kind("spool")}) == relative

    assert relative.spool == str(tmp_path / "spool")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spool", ["", 7, True, b"spool", "missing/spool", ".", "\0"])
def test_impossible_spool_is_named_with_what_is_allowed(
    spool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidOption, match=r"spool=.* is not possible: spool must be the path"):
        ProducerOptions.of(**{**VALID, "spool": spool})
