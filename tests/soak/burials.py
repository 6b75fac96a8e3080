"""Notes dead letters: those that are there at the end, and those that a fault removes."""

import time
from collections.abc import Mapping

from dramatiq_streams.letters import Letter

from .journal import Journal


def note_dead_letter(
    journal: Journal, queue: str, entry: tuple[bytes, Mapping[bytes, bytes]], *, is_removed: bool
) -> None:
    """Note an entry of the dead letters of *queue*, its time on the journal's clock."""
    letter = Letter.parse(queue, *entry)
    journal.note(
        "dead",
        id=letter.message.message_id if letter.message else letter.letter_id,
        died=letter.died_ms / 1000 - time.time() + time.monotonic(),
        is_removed=is_removed,
        reason=letter.reason,
        error=letter.error,
    )
