"""What the worker processes of a soak load."""

import dramatiq

from dramatiq_streams import watch

from .crew import Crew, Settings, Witness

settings = Settings.of_environment()
if settings.host:
    # As if this process were on another machine: only the server can tell whether it lives.
    vars(watch)["host_id"] = lambda address: settings.host

broker = settings.broker()
dramatiq.set_broker(broker)
journal = settings.journal()
broker.add_middleware(Witness(journal))
crew = Crew(broker, journal)
journal.note("loaded")
