"""Who died, stood still or was cut off, and when; and whether that explains a second run (pure)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from .journal import Note
from .schedule import GRACE, LEASE
from .stories import Run

#: A lease is extended three times while it lasts: a process may stand still for two thirds of one.
_LEAST_STILL = LEASE * 0.6

#: A process is late by half a second already when it is cut off, and needs one to come back.
_LEAST_CUT_OFF = GRACE - 1.5

#: Within so many seconds after it has ended a run is settled, unless something keeps it from that.
_SETTLED = 3.0

#: Disturbances with less than this between them are one: nobody is back so soon.
_BREATH = 1.0


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted; `places` is None when it was everywhere."""

    what: str
    begun: float
    ended: float
    places: tuple[str, ...] | None = None

    def meets(self, begun: float, ended: float) -> bool:
        """Whether it overlaps with another span."""
        return self.begun <= ended and self.ended >= begun

    def concerns(self, who: str) -> bool:
        """Whether the process called *who* was in one of its places."""
        return self.places is None or who.partition(".")[0] in self.places


@dataclass(slots=True)
class Disturbances:
    """All that happened to the processes of a soak."""

    deaths: dict[str, tuple[float, str]] = field(default_factory=dict)
    stops: dict[str, list[Span]] = field(default_factory=dict)
    terminations: dict[str, Span] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    flushes: list[float] = field(default_factory=list)
    #: Processes that ended, and nobody had killed them.
    unexplained: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, notes: Iterable[Note]) -> "Disturbances":
        """Find them in a journal."""
        found = cls()
        begun: dict[object, float] = {}
        for note in notes:
            found._hear(note, begun)
        return found

    def why_again(self, run: Run, until: float) -> str | None:
        """Why the server may not know how *run* ended, so that its message came again by *until*.

        Returns:
            None when nothing explains it.
        """
        who = run.who
        if run.ended is not None:
            until = min(until, run.ended + _SETTLED)
        died, cause = self.deaths.get(who, (0.0, ""))
        if run.started <= died <= until:
            return f"{who} {cause} {died - run.started:.2f} s after it had begun"
        since = run.started - LEASE
        for stop in self.stops.get(who, []):
            if stop.meets(since, until) and stop.ended - stop.begun >= _LEAST_STILL:
                return f"{who} stood still for {stop.ended - stop.begun:.2f} s"
        return self._why_unheard(run, until)

    def _why_unheard(self, run: Run, until: float) -> str | None:
        for span in self._cut_offs(run.who):
            if span.meets(run.started - LEASE, until) and span.ended - span.begun >= _LEAST_CUT_OFF:
                return f"{run.who} was cut off for {span.ended - span.begun:.2f} s: {span.what}"
        stopped = self.terminations.get(run.who)
        if stopped is not None and stopped.meets(run.started, until):
            for span in self._cut_offs(run.who):
                if span.meets(stopped.begun - _BREATH, stopped.ended):
                    return f"{run.who} was terminated while {span.what}"
        return None

    def was_flushed(self, since: float, until: float) -> bool:
        """Whether the server forgot everything in between."""
        return any(since <= at <= until for at in self.flushes)

    def was_anybody_killed(self, since: float, until: float) -> bool:
        """Whether a process died in between."""
        return any(since <= at <= until for at, _ in self.deaths.values())

    def _cut_offs(self, who: str) -> list[Span]:
        """The times without a server for *who*, close ones taken together."""
        merged: list[Span] = []
        concerning = (s for s in self.spans if s.concerns(who) and s.what != "the server was full")
        for span in sorted(concerning, key=lambda span: span.begun):
            if merged and span.begun - merged[-1].ended < _BREATH:
                last = merged.pop()
                what = last.what if span.what in last.what else f"{last.what}, {span.what}"
                span = Span(what, last.begun, max(last.ended, span.ended))  # noqa: PLW2901
            merged.append(span)
        return merged

    def _hear(self, note: Note, begun: dict[object, float]) -> None:
        match note.event:
            case "killed":
                self.deaths.setdefault(note.who, (note.at, "was killed"))
            case "dies":
                self.deaths.setdefault(note.who, (note.at, "ended itself"))
            case "gone" if note.who not in self.deaths:
                self.unexplained.append(f"{note.who} ended by itself: {note.facts['code']}")
            case "stopped" | "terminated":
                begun[(note.event, note.who)] = note.at
            case "continued":
                span = Span("stood still", begun[("stopped", note.who)], note.at)
                self.stops.setdefault(note.who, []).append(span)
            case "starved":
                span = Span("stood still", note.facts["since"], note.at)
                self.stops.setdefault(note.who, []).append(span)
            case "ended":
                span = Span("was terminated", begun[("terminated", note.who)], note.at)
                self.terminations[note.who] = span
            case "disturbed" | "undisturbed":
                self._hear_of_a_span(note, begun)
            case "removed" if note.facts["what"] == "everything":
                self.flushes.append(note.at)

    def _hear_of_a_span(self, note: Note, begun: dict[object, float]) -> None:
        what, places = note.facts["what"], note.facts["places"]
        where = None if places is None else tuple(places)
        if note.event == "disturbed":
            begun[(what, where)] = note.at
        else:
            self.spans.append(Span(what, begun[(what, where)], note.at, where))
