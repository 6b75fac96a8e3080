"""The broker that the crawler's actors run on, as the environment variables describe it.

Importing this sets dramatiq's global broker and touches neither the network nor the disk.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

import dramatiq
from dramatiq.middleware import CurrentMessage

from crawl_actors.lifeline import Lifeline
from crawl_actors.requirements import has_server, is_command
from crawl_actors.settings import Environment
from dramatiq_streams import StreamsBroker

#: The one queue of all actors: a page's links are claimed before the page is finished.
QUEUE: Final = "crawl"

#: Pages on their way come before new ones, so that few bodies wait in the server's memory.
PARSE_PRIORITY: Final = -1
STORE_PRIORITY: Final = -2


def make_broker(environment: Environment) -> StreamsBroker:
    """A broker for *environment*; it connects when it is first used."""
    broker = StreamsBroker(
        url=environment.url, namespace=environment.namespace, lease=environment.lease_ms
    )
    broker.add_middleware(CurrentMessage())
    return broker


def _own_broker() -> StreamsBroker:
    """The broker that the actors are declared on; the command itself never connects it.

    So the command starts without the embedded server too, and refuses a run only if it needs one.
    """
    if is_command() and not has_server() and environment.url.startswith("embedded:"):
        return make_broker(replace(environment, url="redis://localhost:1"))
    return make_broker(environment)


environment: Final = Environment.from_variables(os.environ)
broker: Final = _own_broker()
broker.add_middleware(Lifeline(os.environ.get("CRAWL_ACTORS_LIFELINE")))
dramatiq.set_broker(broker)
