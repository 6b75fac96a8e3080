"""The account of a soak: what became of each message, and what nothing explains (pure)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from .crew import MAX_RETRIES, SPOOLER
from .disturbances import Disturbances
from .schedule import GRACE, LEASE
from .stories import Death, Run, Story

#: How a message may end. Only those in doubt may be absent; only a fault removes.
ENDS = ("acked", "dead", "cancelled", "expired", "removed", "absent")

#: Seconds in which a dead worker is noticed, at the latest, and what it had is run elsewhere.
_NOTICED = LEASE + GRACE + 5


@dataclass(slots=True)
class Account:
    """How all messages ended, the second runs with what explains them, and what is wrong."""

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Message ids that nothing explains, each with what is wrong with it.
    wrongs: list[tuple[Story, str]] = field(default_factory=list)
    explained: list[tuple[Story, str]] = field(default_factory=list)
    runs: int = 0
    #: The dead letters, by the kind of their message and their reason.
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: How many of them no fault has removed.
    kept: int = 0
    #: How many messages were dropped because they were cancelled, at least and at most.
    cancelled: tuple[int, int] = (0, 0)

    def total(self, *ends: str, outcome: str | None = None) -> int:
        """How many messages have one of these *ends*, of those whose sender knows *outcome*."""
        return sum(
            count
            for (known, end), count in self.ends.items()
            if end in ends and outcome in (None, known)
        )


def account_of(stories: Mapping[str, Story], disturbances: Disturbances) -> Account:
    """Look at every story."""
    account = Account()
    for story in stories.values():
        end = _end_of(story)
        account.ends[(story.outcome or "in doubt", end)] += 1
        account.runs += len(story.runs)
        account.kept += sum(not death.is_removed for death in story.deaths)
        account.letters.update((story.kind, death.reason) for death in story.deaths)
        account.wrongs += [(story, wrong) for wrong in _wrongs_of(story, end, disturbances)]
        for is_explained, text in _repetitions(story, disturbances):
            (account.explained if is_explained else account.wrongs).append((story, text))
    account.cancelled = _cancelled(stories.values())
    return account


def _cancelled(stories: Iterable[Story]) -> tuple[int, int]:
    asked = [story for story in stories if story.cancelling is not None]
    certain = [story for story in asked if story.cancel_outcome == "cancelled"]
    return sum(story.removed is None for story in certain), len(asked)


def _end_of(story: Story) -> str:
    if story.deaths:
        return "expired" if story.is_skipped and not story.is_done else "dead"
    if story.cancel_outcome == "cancelled":
        return "cancelled"
    if story.is_done:
        return "acked"
    if story.removed is not None:
        return "removed"
    # A worker had it when it was cancelled, and died; or nobody knows whether that was done.
    is_perhaps_cancelled = story.cancelling is not None and story.cancelled is None
    if story.outcome == "sent" and (story.cancel_outcome == "held" or is_perhaps_cancelled):
        return "cancelled"
    return "absent"


def _wrongs_of(story: Story, end: str, disturbances: Disturbances) -> Iterator[str]:
    """What is wrong with this end of *story*, whatever happened."""
    if end == "absent" and story.outcome == "sent":
        yield "is lost"
    if story.outcome == "unsent" and end != "absent":
        yield f"was not sent, as its sender was told, and is {end}"
    if len(story.deaths) > 1 + story.is_doubled:
        yield "has several dead letters"
    if story.kind == "stale" and story.runs:
        yield "was run, though it was too old"
    if story.kind in ("failing", "poison") and story.is_done:
        yield "has returned, though it never does"
    if story.cancel_outcome == "cancelled" and not story.is_doubled:
        yield from _runs_after_its_cancellation(story)
    for death in story.deaths:
        yield from _wrongs_of_death(story, death, disturbances)


def _wrongs_of_death(story: Story, death: Death, disturbances: Disturbances) -> Iterator[str]:
    if death.reason == "failed":
        if not story.is_skipped and not any(run.retries == MAX_RETRIES for run in story.runs):
            yield "is dead before its last retry"
    elif death.reason != "max_deliveries":
        yield f"is dead for an unknown reason: {death.reason}"
    elif not disturbances.was_anybody_killed(death.at - _NOTICED, death.at):
        yield "is dead for the death of workers, and none has died"


def _runs_after_its_cancellation(story: Story) -> Iterator[str]:
    for run in story.runs:
        if story.cancelled is not None and run.started > story.cancelled:
            yield "was run after it had been cancelled"


def _repetitions(story: Story, disturbances: Disturbances) -> Iterator[tuple[bool, str]]:
    """Each time that *story* went on though it should have been over: is it explained, and how."""
    for run, again in pairwise(story.runs):
        is_retry = again.retries == run.retries + 1 and not run.is_done
        if not is_retry:
            yield _explained(story, run, "was started again", again.started, disturbances)
    last = story.runs[-1] if story.runs else None
    if last is None or last.ended is None or not last.is_done:
        return
    ends = [(death.at, "is dead") for death in story.deaths]
    if story.cancel_outcome == "cancelled" and story.cancelled is not None:
        ends.append((story.cancelled, "was cancelled"))
    for at, what in ends:
        if last.ended < at:
            yield _explained(story, last, f"had returned and {what}", at, disturbances)


def _explained(
    story: Story, run: Run, what: str, until: float, disturbances: Disturbances
) -> tuple[bool, str]:
    why = disturbances.why_again(run, until)
    if why is None and story.is_doubled:
        why = "the reply to its sender was lost, and it went to the spool"
    is_spooled = story.sender.startswith(SPOOLER)
    if why is None and is_spooled and disturbances.was_flushed(run.started - _NOTICED, until):
        why = "the server forgot what it had taken in from the spool"
    return why is not None, f"{what} by {run.who}: {why or 'nothing explains it'}"
