"""How often properties are tried whose examples cost more than a computation."""

from hypothesis import HealthCheck, settings


def costly(times: int) -> settings:
    """Return settings for examples that cost `times` as much as others, in any profile.

    They may share a fixture, which each example has to leave as it found it.
    """
    assert settings.default is not None
    quiet = [*settings.default.suppress_health_check, HealthCheck.function_scoped_fixture]
    tried = max(1, settings.default.max_examples // times)
    return settings(max_examples=tried, suppress_health_check=quiet)
