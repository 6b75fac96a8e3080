"""A Dramatiq broker on Redis Streams consumer groups."""

__version__ = "0.1.0"
