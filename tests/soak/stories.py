"""What happened to each message, put together from the journal (pure)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from .journal import Note


@dataclass(slots=True)
class Run:
    """An actor that was started with a message."""

    who: str
    started: float
    retries: int
    ended: float | None = None
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Death:
    """A dead letter; `at` is on the journal's clock."""

    at: float
    reason: str
    #: A fault has removed it again.
    is_removed: bool


@dataclass(slots=True)
class Story:
    """Everything known of one message."""

    message_id: str
    kind: str
    sender: str
    #: `sent`, `unsent`, `unconfirmed`, or empty when the sender died before it knew.
    outcome: str = ""
    #: Its reply was lost, and it went to a spool.
    is_doubled: bool = False
    runs: list[Run] = field(default_factory=list)
    is_skipped: bool = False
    deaths: list[Death] = field(default_factory=list)
    #: When somebody began to cancel it, when that was done, and what came of it.
    cancelling: float | None = None
    cancelled: float | None = None
    cancel_outcome: str = ""
    #: When a fault removed it from the server.
    removed: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether its actor has returned at least once."""
        return any(run.is_done for run in self.runs)

    def __str__(self) -> str:
        head = f"{self.message_id} ({self.kind}, by {self.sender}):"
        return "\n".join([head, *(f"    {note}" for note in self.notes)])


def stories_of(notes: Iterable[Note]) -> dict[str, Story]:
    """The stories of all messages that anybody was about to send, by id."""
    teller = _Teller()
    for note in notes:
        teller.hear(note)
    return teller.stories


class _Teller:
    def __init__(self) -> None:
        self.stories: dict[str, Story] = {}
        self._being_sent: dict[str, list[str]] = {}

    def hear(self, note: Note) -> None:
        """Add *note* to the stories of the messages that it is about."""
        if note.event == "sending":
            for message_id in note.facts["ids"]:
                self.stories[message_id] = Story(message_id, note.facts["kind"], note.who)
            self._being_sent[note.who] = note.facts["ids"]
        if note.event == "dead":
            message_id = note.facts["id"]
            self.stories.setdefault(message_id, Story(message_id, "unknown", "nobody"))
        for story in self._about(note):
            facts = {key: value for key, value in note.facts.items() if key not in ("id", "ids")}
            story.notes.append(f"{note.at:.3f} {note.who}: {note.event} {facts or ''}".rstrip())
            self._add(note, story)

    def _about(self, note: Note) -> list[Story]:
        ids = note.facts.get("ids") or [note.facts.get("id")]
        if note.event == "spooling":
            ids = self._being_sent[note.who]
        return [self.stories[message_id] for message_id in ids if message_id in self.stories]

    def _add(self, note: Note, story: Story) -> None:
        match note.event:
            case "sent" | "unsent" | "unconfirmed":
                story.outcome = note.event
            case "spooling":
                story.is_doubled |= note.facts["is_in_doubt"]
            case "started":
                story.runs.append(Run(note.who, note.at, note.facts["retries"]))
            case "done" | "failed":
                run = next(run for run in reversed(story.runs) if run.who == note.who)
                run.ended, run.is_done = note.at, note.event == "done"
            case "skipped":
                story.is_skipped = True
            case "dead":
                facts = note.facts
                death = Death(facts["died"], facts["reason"], facts["is_removed"])
                story.deaths.append(death)
            case "removed":
                story.removed = note.at
            case "cancelling":
                story.cancelling = note.at
            case "cancelled":
                story.cancelled, story.cancel_outcome = note.at, note.facts["outcome"]
