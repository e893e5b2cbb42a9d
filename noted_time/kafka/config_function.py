"""A configuration of Kafka's client by the name of a function that returns it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noted_time.extras import load_function
from noted_time.values import Rejected

FUNCTION_SETTING = "noted_time.function"
"""The setting that names the function with the other settings, as ``module:function``.

So a configuration can be sent to another process although some settings are functions: it is called
where the connection is made.
"""


def resolve_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration with what its `FUNCTION_SETTING` returns, if it names one.

    Raises `Rejected` if that cannot be imported, raises, or returns no mapping.
    """
    if FUNCTION_SETTING not in config:
        return config
    name = config[FUNCTION_SETTING]
    function = load_function(name)
    wanted = "it has to return a mapping of librdkafka's settings"
    try:
        given = function()
    except Exception as error:
        raise Rejected(f"the function {name!r} raised {error!r}: {wanted}") from error
    if not isinstance(given, Mapping):
        raise Rejected(f"the function {name!r} returned {type(given).__name__}: {wanted}")
    return {**{k: v for k, v in config.items() if k != FUNCTION_SETTING}, **given}
