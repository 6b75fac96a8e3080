"""What `dlq redrive` would do, without doing it."""

from __future__ import annotations

from dramatiq_streams.cli.place import Place
from dramatiq_streams.dead_letters import Outcome, Redrive
from dramatiq_streams.letters import Letter
from dramatiq_streams.reservations import Reservations


class Rehearsal:
    """Finds out which letters would stay, because of keys that others have or would have then."""

    def __init__(self, place: Place) -> None:
        self._rooms = {
            queue.queue_name: Reservations(place.executor, place.scope(queue))
            for queue in place.queues
        }
        #: Queue and key -> the message that would have it, of the letters so far.
        self._taken: dict[tuple[str, str], str] = {}

    def redrive(self, letter: Letter) -> Redrive:
        """What would become of *letter*, after those before it."""
        key, message = letter.unique_key, letter.message
        if key is None:
            return Redrive(Outcome.SENT)
        place = letter.queue, key
        held = self._rooms[letter.queue].find(letter.queue, key)
        holder = held.message_id if held else self._taken.get(place)
        if holder is not None:
            return Redrive(Outcome.HELD, holder)
        self._taken[place] = message.message_id if message else letter.letter_id
        return Redrive(Outcome.SENT)
