"""Idempotency under all faults at once: four processes, three lock servers, no mercy.

`STRESS_SECONDS` says for how long, `STRESS_KEYS` how many keys, `STRESS_SEED` which faults.
"""

import json
import os
import random
import secrets
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dramatiq
import psutil
import pytest

from dramatiq_streams import StreamsBroker
from tests.conftest import StartServer
from tests.soak.append_log import commands
from tests.soak.idempotent_worker import create_table, declare, make_broker
from tests.support.processes import start_process
from tests.support.servers import Server
from tests.support.waiting import wait_until

SECONDS = float(os.environ.get("STRESS_SECONDS", "15"))
KEYS = int(os.environ.get("STRESS_KEYS", "400"))
PROCESSES = 4
LEASE_MS = 1_000
BROKER_LEASE_MS = 2_000
#: What may come on top: the start, and what is left when the faults have ended.
REST_SECONDS = 180


@dataclass
class Stress:
    """The processes and servers, and what is done to them."""

    settings: dict[str, Any]
    server: Server
    lockers: list[Server]
    directory: Path
    random: random.Random
    done: Counter[str] = field(default_factory=Counter)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stopped: dict[int, float] = field(default_factory=dict)
    paused: dict[int, float] = field(default_factory=dict)

    def start_worker(self) -> None:
        script = Path(__file__).with_name("idempotent_worker.py")
        root = str(Path(__file__).parents[2])
        self.workers.append(
            start_process(
                [sys.executable, str(script), json.dumps(self.settings)],
                log=self.directory / "workers.log",
                cwd=self.directory,
                environment={"PYTHONPATH": root},
            )
        )

    def disturb(self) -> None:
        """One fault, at random; what was stopped for long enough goes on."""
        now = time.monotonic()
        self._resume(now)
        act = self.random.choices(
            [
                self._kill_worker,
                self._stop_worker,
                self._restart_locker,
                self._pause_locker,
                self._restart_server,
            ],
            weights=[6, 6, 4, 2, 1],
        )[0]
        act(now)

    def calm(self) -> None:
        """Let everything run."""
        self._resume(float("inf"))

    def _kill_worker(self, now: float) -> None:
        victim = self.random.choice(self.workers)
        victim.kill()
        victim.wait()
        self.stopped.pop(victim.pid, None)
        self.workers.remove(victim)
        self.start_worker()
        self.done["kill -9"] += 1

    def _stop_worker(self, now: float) -> None:
        victim = self.random.choice(self.workers)
        if victim.pid not in self.stopped and len(self.stopped) < PROCESSES - 1:
            os.kill(victim.pid, signal.SIGSTOP)
            # Shorter and longer than both leases.
            self.stopped[victim.pid] = now + self.random.uniform(0.3, 2.5 * BROKER_LEASE_MS / 1000)
            self.done["SIGSTOP"] += 1

    def _restart_locker(self, now: float) -> None:
        number = self.random.randrange(len(self.lockers))
        self.paused.pop(number, None)
        self.lockers[number].restart(keep_data=False)
        self.done["lock server restarted empty"] += 1

    def _pause_locker(self, now: float) -> None:
        number = self.random.randrange(len(self.lockers))
        if number not in self.paused:
            self.lockers[number].pause()
            self.paused[number] = now + self.random.uniform(0.2, 2.0)
            self.done["lock server stopped"] += 1

    def _restart_server(self, now: float) -> None:
        self.server.kill()
        self.server.start()
        self.done["broker's server killed"] += 1

    def _resume(self, now: float) -> None:
        for pid in [pid for pid, until in self.stopped.items() if until <= now]:
            del self.stopped[pid]
            os.kill(pid, signal.SIGCONT)
        for number in [number for number, until in self.paused.items() if until <= now]:
            del self.paused[number]
            self.lockers[number].resume()


@pytest.fixture
def stress(start_server: StartServer, tmp_path: Path) -> Iterator[Stress]:
    # Its log has to have all that it ever did.
    config = ["auto-aof-rewrite-percentage 0"]
    server = start_server(appendonly=True, config=config)
    (tmp_path / "journals").mkdir()
    create_table(tmp_path / "table.sqlite")
    with ExitStack() as stack:
        lockers = [stack.enter_context(Server()) for _ in range(3)]
        settings = {
            "url": server.url,
            "namespace": "stress",
            "masters": [locker.url for locker in lockers],
            "lease": LEASE_MS,
            "broker_lease": BROKER_LEASE_MS,
            "threads": 8,
            "table": str(tmp_path / "table.sqlite"),
            "journals": str(tmp_path / "journals"),
        }
        seed = int(os.environ.get("STRESS_SEED") or secrets.randbelow(1_000_000))
        made = Stress(settings, server, lockers, tmp_path, random.Random(seed))
        made.done["seed"] = seed
        yield made
        made.calm()
        for worker in made.workers:
            worker.kill()
            worker.wait()


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + REST_SECONDS)
def test_each_key_is_completed_once_and_the_newest_token_writes_last(
    stress: Stress, tmp_path: Path
) -> None:
    broker = make_broker(stress.settings)
    actor = declare(broker, stress.settings)
    keys = [f"k{number}" for number in range(KEYS)]
    # Twice each, in no order, and ten keys that everybody wants.
    messages = [actor.message(key, number) for number, key in enumerate(keys)] * 2
    messages += [actor.message(key, number) for number, key in enumerate(keys[:10])] * 8
    messages = [
        message.copy(message_id=f"{n}-{message.message_id}") for n, message in enumerate(messages)
    ]
    stress.random.shuffle(messages)
    for _ in range(PROCESSES):
        stress.start_worker()
    journals = tmp_path / "journals"
    wait_until(lambda: len(list(journals.iterdir())) == PROCESSES, timeout=60, message="they work")

    _send_and_disturb(stress, broker, messages)
    stress.calm()
    broker.join("default", timeout=int(REST_SECONDS * 0.7 * 1000))
    broker.close()
    _stop(stress)

    events = _journalled(journals)
    found = _Found(stress.server, tmp_path)
    log = (tmp_path / "workers.log").read_text()
    noted = {
        "late completions refused": log.count("Late completion refused"),
        "keys lost while they ran": log.count(" is lost while message "),
        "times without locks": log.count("run without locks"),
        # dramatiq's own, of a retry while the server was away, are no news.
        "failures": log.count("failure in ") - log.count("of <dramatiq.") + log.count("watchdog"),
    }
    wrote = dict(Counter(event for event, _, _ in events))
    report = f"{dict(stress.done)}, {noted}, {wrote}, {found}"
    print(report)  # noqa: T201
    (tmp_path / "report.txt").write_text(report)
    tokens = defaultdict(list)
    for key, token in found.started:
        tokens[key].append(token)
    assert set(tokens) == set(keys), report
    assert all(each == sorted(set(each)) for each in tokens.values()), report
    assert Counter(key for key, _ in found.completed) == dict.fromkeys(keys, 1), report
    newest = {key: max(each) for key, each in tokens.items()}
    assert dict(found.completed) == newest, report
    assert found.rows == newest, report
    assert found.dead == 0, report
    assert noted["failures"] == 0, log[-4_000:]
    # The faults have struck: some keys ran again, though most did not.
    assert len(found.started) > len(keys), report


def _send_and_disturb(
    stress: Stress, broker: StreamsBroker, messages: Sequence[dramatiq.Message[Any]]
) -> None:
    """Send all of *messages* in the time there is, while one fault comes after the other."""
    began, sent = time.monotonic(), 0
    while (passed := time.monotonic() - began) < SECONDS:
        due = min(int(len(messages) * passed / (0.9 * SECONDS)) + 1, len(messages))
        broker.enqueue_many(messages[sent:due])
        sent = due
        stress.disturb()
        time.sleep(stress.random.uniform(0.1, 0.7))
    broker.enqueue_many(messages[sent:])


class _Found:
    """What is left when all is over."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.started: list[tuple[str, int]] = []
        self.completed: list[tuple[str, int]] = []
        prefix = b"{stress:idempotency}:record:write:"
        configured: Any = server.client().config_get("dir")["dir"]
        for words in commands(Path(configured)):
            if words[0].upper() == b"HSET" and words[1].startswith(prefix):
                self._note(words[1].removeprefix(prefix).decode(), words[2:])
        with closing(sqlite3.connect(directory / "table.sqlite")) as connection:
            rows = connection.execute("SELECT key, token FROM pages").fetchall()
        self.rows = dict(rows)
        assert len(self.rows) == len(rows)
        self.dead = server.client().xlen("{stress:default:0}:dead")

    def __str__(self) -> str:
        late = len(self.started) - len(self.completed)
        return f"{len(self.started)} starts, {len(self.completed)} completions, {late} others"

    def _note(self, key: str, pairs: list[bytes]) -> None:
        fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
        if fields.get(b"state") == b"running":
            self.started.append((key, int(fields[b"token"])))
        elif fields.get(b"state") == b"done":
            self.completed.append((key, int(fields[b"token"])))


def _journalled(journals: Path) -> list[tuple[str, str, int]]:
    lines = [line.split() for path in journals.iterdir() for line in path.read_text().splitlines()]
    return [(event, key, int(token)) for event, key, token in lines]


def _stop(stress: Stress) -> None:
    """End the workers in order; none of them hangs, and none leaves a lock."""
    for worker in stress.workers:
        worker.terminate()
    gone, alive = psutil.wait_procs([psutil.Process(w.pid) for w in stress.workers], timeout=30)
    assert not alive, f"{alive} did not stop; {gone} did"
    left = [locker.client().dbsize() for locker in stress.lockers]
    wait_until(
        lambda: not any(locker.client().dbsize() for locker in stress.lockers),
        timeout=2 * LEASE_MS / 1000,
        message=f"no lock is left: {left}",
    )
