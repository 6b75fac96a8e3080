"""A real Valkey server for `embedded://PATH`: started when needed, one per directory.

For development, tests and one-machine work. Nothing is started by importing or constructing
anything here: the first connection that finds no server starts one, every process that names the
same directory shares it, and it stops a few seconds after its last client has left. Its data is
in the directory, in an append-only file, and is there again at the next start.

Nothing here knows about queues; it gives redis-py's pools a way to connect.
"""

from dramatiq_streams.embedded.connection import EmbeddedConnection, embedded_pool_parameters
from dramatiq_streams.embedded.stopping import stop

__all__ = ["EmbeddedConnection", "embedded_pool_parameters", "stop"]
