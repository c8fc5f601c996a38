"""Settings of the tests: the machine's speed takes no part in a verdict, and examples are the same in every run."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "depthgraph", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("depthgraph")
