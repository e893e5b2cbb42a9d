"""Resolves a Kafka client configuration from the name of a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noted_time.extras import load_function
from noted_time.values import Rejected

FUNCTION_SETTING = "noted_time.function"
"""Names a function that returns settings, as ``module:function``, where the client connects."""


def resolve_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    if FUNCTION_SETTING not in config:
        return config
    name = config[FUNCTION_SETTING]
    function = load_function(name)
    remedy = "it must return a mapping of librdkafka's settings"
    try:
        settings = function()
    except Exception as error:
        raise Rejected(f"the function {name!r} raised {error!r}: {remedy}") from error
    if not isinstance(settings, Mapping):
        raise Rejected(f"the function {name!r} returned {type(settings).__name__}: {remedy}")
    return {
        **{setting: value for setting, value in config.items() if setting != FUNCTION_SETTING},
        **settings,
    }
