"""How a client shows its token to a controller."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from noted_time.values import Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "NOTED_TIME_TOKEN"
"""The environment variable with the token of clients that are given none."""

_VISIBLE = re.compile(r"[!-~]+")


def authorization(token: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that show `token`, or that of the environment; none if there is no token.

    White space around it is that of the file it was read from. Raises `Rejected`, without the token
    in its sentence, if it holds what no header may.

    >>> authorization(None, {}), authorization("", {VARIABLE: "nt_1_x"})
    ({}, {})
    >>> authorization(None, {VARIABLE: " nt_1_x "})
    {'Authorization': 'Bearer nt_1_x'}
    """
    shown = (environment.get(VARIABLE, "") if token is None else token).strip()
    if not shown:
        return {}
    if not _VISIBLE.fullmatch(shown):
        raise Rejected("the token has characters that no token has")
    return {"Authorization": f"Bearer {shown}"}
