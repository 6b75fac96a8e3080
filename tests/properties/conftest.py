"""How Hypothesis is used here: new examples in each run, a blob to repeat what failed.

Where `CI` is set they are the same each time: what fails there is the change and not the luck.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "dramatiq-streams",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    print_blob=True,
    # The server and the namespace outlive an example; each example has a queue of its own.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("dramatiq-streams")
