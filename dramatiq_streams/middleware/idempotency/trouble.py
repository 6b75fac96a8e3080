"""A failure that goes on is worth one line, not one for each message that meets it."""

from __future__ import annotations

import logging


class Trouble:
    """Warns of the first failure in a row; the others are for those who debug.

    Threads share it without a lock: what they overwrite of each other's is a line more or less.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._is_known = False

    def warn(self, text: str, *arguments: object) -> None:
        """Log *text* with its *arguments*."""
        level = logging.DEBUG if self._is_known else logging.WARNING
        self._is_known = True
        self._logger.log(level, text, *arguments)

    def end(self) -> None:
        """It works again: the next failure is another one."""
        self._is_known = False
