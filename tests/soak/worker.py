"""What the worker processes of a soak load."""

import threading
import time

import dramatiq
from dramatiq.middleware import Middleware

from dramatiq_streams import watch

from .crew import Crew, Settings, Witness

_PULSE_SECONDS = 0.2
_LEAST_NOTED = 1.0


class Pulse(Middleware):
    """Notes when this process did not run for a while: stopped, or the machine too busy."""

    def after_process_boot(self, broker: dramatiq.Broker) -> None:
        threading.Thread(target=self._beat, name="pulse", daemon=True).start()

    def _beat(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(_PULSE_SECONDS)
            now = time.monotonic()
            if now - last > _LEAST_NOTED:
                journal.note("starved", since=last)
            last = now


settings = Settings.of_environment()
if settings.host:
    # As if this process were on another machine: only the server can tell whether it lives.
    vars(watch)["host_id"] = lambda address: settings.host

broker = settings.broker()
dramatiq.set_broker(broker)
journal = settings.journal()
broker.add_middleware(Witness(journal))
broker.add_middleware(Pulse())
crew = Crew(broker, journal)
journal.note("loaded")
