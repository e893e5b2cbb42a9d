"""Which of several controllers to ask, and how to show it a token."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from noted_time.values import Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

OWNER = "noted-time-owner"
"""The header in which a controller says at which URL another one has the stream."""

DOUBTS = 100
"""How often one that failed is named in vain before it is asked again."""


VARIABLE = "NOTED_TIME_TOKEN"
"""The environment variable with the token of clients that are given none."""

_VISIBLE = re.compile(r"[!-~]+")


class Controllers:
    """The controllers of one database, each of which answers for every stream.

    A client stays with the one that answered last, or with the one which that says to have the
    stream, and goes round once when it cannot be reached or cannot answer. Asking another what one
    may have done already is safe, because the same note, report or question again changes nothing.

    >>> controllers = Controllers("http://a:7464, http://b:7464/")
    >>> controllers.pass_over("http://a:7464")
    >>> controllers.current
    'http://b:7464'
    """

    def __init__(self, urls: str) -> None:
        """Take one URL, or several with commas between; raises `Rejected` if one is not a URL."""
        if not isinstance(urls, str):
            message = (
                f"the URL of a controller is text, http://127.0.0.1:7464 for one; not {urls!r}"
            )
            raise Rejected(message)
        self.urls = tuple(url.strip().rstrip("/") for url in urls.split(",") if url.strip())
        if not self.urls:
            message = "not the URL of a controller: use http://127.0.0.1:7464"
            raise Rejected(message)
        for url in self.urls:
            _check(url)
        self._at = 0
        self._doubted: dict[str, int] = {}

    @property
    def current(self) -> str:
        """The URL that is asked first."""
        return self.urls[self._at]

    def prefer(self, url: str | None) -> None:
        """Ask that one from now on, if it is among them and did not fail lately.

        The controller that names it may reach it when this client does not.
        """
        if url not in self.urls:
            return
        doubts = self._doubted.get(url, 0)
        if doubts:
            self._doubted[url] = doubts - 1
        else:
            self._at = self.urls.index(url)

    def pass_over(self, url: str) -> None:
        """Advance to the next, unless another thread already did."""
        self._doubted[url] = DOUBTS
        if url == self.current:
            self._at = (self._at + 1) % len(self.urls)


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


def _check(url: str) -> None:
    """Raise `Rejected`, with the remedy, if it lacks its scheme, has a user or names a path."""
    if "@" in url:  # which is not repeated: there may be a password before it
        raise Rejected(
            "the URL of a controller has no user and password: leave out what stands before the @"
        )
    if not url.lower().startswith(("http://", "https://")):
        raise Rejected(f"{url!r} has no scheme: use http://{url.rpartition('//')[2]}, or https://")
    if url.endswith("/v1"):
        raise Rejected(f"{url!r} names a path of the API: use {url.removesuffix('/v1')}")
