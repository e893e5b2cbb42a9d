"""What schemathesis has to know and an OpenAPI document cannot state."""

from typing import Any

import schemathesis


@schemathesis.hook
def filter_body(_context: schemathesis.HookContext, body: Any) -> bool:  # noqa: ANN401 - any JSON
    """Leave out 1.0 and the like: integers to a JSON schema, refused here.

    A number that a client holds in floating point is not exact beyond 2^53, so offsets and times
    that were such numbers are better refused while they are small.
    """
    return not _has_whole_float(body)


def _has_whole_float(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, value))
    return isinstance(value, float) and value.is_integer()
