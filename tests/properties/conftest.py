"""How Hypothesis is used here: new examples in each run, a blob to repeat what failed."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "dramatiq-streams",
    deadline=None,
    derandomize=False,
    print_blob=True,
    # The server and the namespace outlive an example; each example has a queue of its own.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("dramatiq-streams")
