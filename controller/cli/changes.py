"""`noted-time changes`: what was changed by hand, by whom and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.api_client import connected, stream_path
from controller.cli.options import DEFAULT_URL, AsJson, Limit, Stream, Token, Url
from controller.cli.output import print_json, print_table, say, shown_position, told_plainly
from controller.cli.streams import shown_setting
from controller.cli.times import shown_time
from noted_time.values import shown_duration

Json = dict[str, Any]


def changes(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    *,
    before: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, show_default=False, help="Only older ones."),
    ] = None,
    limit: Limit = 100,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List what was changed by hand, the newest first: what, by whom and why.

    Try it:  noted-time changes flights --limit 10
    """
    with told_plainly(), connected(url, token) as client:
        path, query = stream_path(stream, "changes"), {"before": before}
        found = client.rows(path, "changes", cursor="before", limit=limit, query=query)
    if as_json:
        print_json(found)
        return
    columns = ("number", "at", "action", "writer", "what", "by", "comment")
    print_table(columns, map(_row, found["changes"]))
    if found["next"] is not None:
        say(f"There is more: noted-time changes {stream} --before {found['next']}")


def _row(change: Json) -> tuple[str, ...]:
    return (
        str(change["number"]),
        shown_time(change["at"]),
        change["action"],
        change["writer"] or "-",
        _what(change) or "-",
        change["by"] or "-",
        change["comment"] or "-",
    )


POSITION_AT = {
    "sealed": ("cut", "at"),
    "truncated": ("cut", "up to"),
    "corrected": ("position", "to"),
}


def _what(change: Json) -> str:
    """Return in words what was changed, where the action does not say it all.

    >>> _what({"action": "held", "is": {"for_ms": 60_000, "until": 0}})
    'for 1m'
    >>> settings = {"was": {"domains": ["a"]}, "is": {"domains": ["a", "b"]}}
    >>> _what({"action": "settings", **settings})
    'domains: a → a, b'
    >>> _what({"action": "scaled", "is": {"sealed": {"0": 5}, "created": {"2": [0], "3": [0]}}})
    'sealed 0:5, created 2 3'
    >>> _what({"action": "taken_over", "was": {"label": "a:1"}, "is": {"label": "b:2"}})
    'a:1 → b:2'
    """
    action, is_now = change["action"], change.get("is") or {}
    if action == "settings":
        was = change["was"].items()
        pairs = ((name, shown_setting(name, old), is_now[name]) for name, old in was)
        return "; ".join(f"{name}: {old} → {shown_setting(name, new)}" for name, old, new in pairs)
    if action == "taken_over":
        return f"{change['was']['label'] or '-'} → {is_now['label'] or '-'}"
    if action == "held":
        return f"for {shown_duration(is_now['for_ms'])}"
    if action in POSITION_AT:
        name, words = POSITION_AT[action]
        return f"{words} {shown_position(is_now[name])}"
    if action == "scaled":
        created = " ".join(sorted(is_now["created"], key=int)) or "-"
        return f"sealed {shown_position(is_now['sealed'])}, created {created}"
    return ""
