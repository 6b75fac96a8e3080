"""A soak in words: what was done, what became of the messages, and what nothing explains (pure)."""

from collections import Counter
from collections.abc import Iterator

from .account import ENDS
from .soak import Result

#: More second runs than these are only counted, except in the report of a soak that failed.
_MOST_STORIES = 20


def report(result: Result) -> str:
    """All of it."""
    return "\n".join([*_head(result), *_ends(result), *_again(result), *_wrongs(result)])


def _head(result: Result) -> Iterator[str]:
    plan, noted = result.plan, Counter(note.event for note in result.notes)
    done = Counter(note.facts["name"] for note in result.notes if note.event == "fault")
    yield (
        f"A soak of {plan.seconds:.0f} s with {plan.processes} worker processes, seed {plan.seed}"
    )
    yield f"  faults: {', '.join(f'{name} {count}' for name, count in sorted(done.items()))}"
    yield (
        f"  processes: {noted['killed']} killed, {noted['gone']} found ended,"
        f" {noted['terminated']} terminated, {noted['stopped']} stopped for a while"
    )
    for name, count in sorted(result.metrics.items()):
        yield f"  {name} {count:.0f}"


def _ends(result: Result) -> Iterator[str]:
    account = result.account
    yield ""
    yield f"{'':14}{''.join(f'{end:>11}' for end in ENDS)}"
    for outcome in ("sent", "unconfirmed", "in doubt", "unsent"):
        counts = [account.total(end, outcome=outcome) for end in ENDS]
        yield f"{outcome:14}{''.join(f'{count:11}' for count in counts)}{sum(counts):11} in all"
    ends = [account.total(end, outcome="sent") for end in ENDS]
    words = " + ".join(f"{count} {end}" for count, end in zip(ends, ENDS, strict=True) if count)
    yield f"{sum(ends)} sent = {words}; {account.runs} runs"
    letters = sorted(account.letters.items())
    words = ", ".join(f"{count} {kind} ({reason})" for (kind, reason), count in letters)
    yield f"dead letters: {words}"


def _again(result: Result) -> Iterator[str]:
    explained = result.account.explained
    yield ""
    yield f"{len(explained)} messages went on when they could have been over:"
    for story, text in explained:
        yield f"  {story.message_id} {text}"


def _wrongs(result: Result) -> Iterator[str]:
    for complaint in result.complaints:
        yield f"WRONG: {complaint}"
    wrongs = result.account.wrongs
    for story, text in wrongs[:_MOST_STORIES]:
        yield f"WRONG: {text}\n{story}"
    if len(wrongs) > _MOST_STORIES:
        yield f"and {len(wrongs) - _MOST_STORIES} more"
    if wrongs or result.complaints:
        yield "Schedule:"
        yield from (f"  {fault}" for fault in result.plan.faults())
        yield f"To repeat it: SOAK_SEED={result.plan.seed} SOAK_SECONDS={result.plan.seconds:.0f}"
