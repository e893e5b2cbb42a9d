"""How hard the properties are tried: NOTED_TIME_PROPERTIES=thorough tries many more examples."""

import os

from hypothesis import HealthCheck, settings

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("ci", max_examples=150, deadline=None, suppress_health_check=QUIET)
settings.register_profile(
    "thorough", max_examples=20_000, deadline=None, suppress_health_check=QUIET
)
settings.load_profile(os.environ.get("NOTED_TIME_PROPERTIES", "ci"))
