"""Hooks for schemathesis, for facts that an OpenAPI document cannot express."""

from typing import Any

import schemathesis


@schemathesis.hook
def before_load_schema(_context: schemathesis.HookContext, document: dict[str, Any]) -> None:
    """Allow repeated names of expected writers: 10,000 distinct ones take half of all CPU time.

    Distinct names of domains are drawn.
    """
    settings = document["components"]["schemas"]["StreamChanges"]["properties"]
    del settings["expected_writers"]["anyOf"][0]["uniqueItems"]


@schemathesis.hook
def filter_body(_context: schemathesis.HookContext, body: Any) -> bool:  # noqa: ANN401 - any JSON
    """Leave out floats such as 1.0, which are integers to a JSON schema and refused here.

    A float is not exact beyond 2^53, so offsets and times in floats are refused.
    """
    return not _has_whole_float(body)


@schemathesis.hook
def filter_case(_context: schemathesis.HookContext, case: schemathesis.Case[Any]) -> bool:
    """Leave out requests that contradict themselves, which OpenAPI cannot express."""
    asks_twice = {"changed_since", "wait_ms"} <= case.query.keys()
    return not (asks_twice or _is_sticky_without_threshold(case.body))


def _is_sticky_without_threshold(body: object) -> bool:
    policy = body.get("backlog") if isinstance(body, dict) else None
    if not isinstance(policy, dict):
        return False
    thresholds = policy.get("watermark_lag_ms"), policy.get("reader_lag_ms")
    return policy.get("rule") == "sticky" and thresholds == (None, None)


def _has_whole_float(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, value))
    return isinstance(value, float) and value.is_integer()
