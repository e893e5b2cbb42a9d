"""Calls for the alignments of a controller, in few words."""

from typing import Any

import httpx


def put_alignment(url: str, name: str, max_drift: int, member_timeout_ms: int = 60_000) -> None:
    """Make an alignment."""
    _put(url, name, {"max_drift": max_drift, "member_timeout_ms": member_timeout_ms})


def report_member(url: str, name: str, member: str, time: int | None) -> None:
    """Report a member's time, `None` before it has one."""
    _put(url, f"{name}/members/{member}", {"time": time})


def report_group(url: str, name: str, member: str, stream: str, group: str) -> None:
    """Report that a member is a reader group."""
    _put(url, f"{name}/members/{member}", {"stream": stream, "group": group})


def times_aligned(url: str, name: str) -> dict[str, int | None]:
    """Return the time of each member."""
    return {member: each["time"] for member, each in _members(url, name).items()}


def states_aligned(url: str, name: str) -> dict[str, str]:
    """Return the state of each member."""
    return {member: each["state"] for member, each in _members(url, name).items()}


def _members(url: str, name: str) -> dict[str, Any]:
    answer = httpx.get(f"{url}/v1/alignments/{name}", trust_env=False).raise_for_status()
    return dict(answer.json()["members"])


def _put(url: str, path: str, body: dict[str, Any]) -> None:
    httpx.put(f"{url}/v1/alignments/{path}", json=body, trust_env=False).raise_for_status()
