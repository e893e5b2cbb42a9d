"""How often costly properties are tried."""

from hypothesis import HealthCheck, settings


def costly(times: int) -> settings:
    """Return settings for examples that cost `times` as much as others.

    They may share a fixture, which each must leave unchanged.
    """
    assert settings.default is not None
    quiet = [*settings.default.suppress_health_check, HealthCheck.function_scoped_fixture]
    example_count = max(1, settings.default.max_examples // times)
    return settings(max_examples=example_count, suppress_health_check=quiet)
