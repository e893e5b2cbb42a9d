"""Choose which of several controllers to ask, and read the token to send."""

from __future__ import annotations

import re
from collections.abc import Mapping

from noted_time.values import Unreadable

OWNER_HEADER = "noted-time-owner"

DOUBTS_BEFORE_RETRY = 100
"""How often a failed controller must be named as the owner before the client asks it again."""

ENVIRONMENT_VARIABLE = "NOTED_TIME_TOKEN"

_VISIBLE_ASCII = re.compile(r"[!-~]+")


class Controllers:
    """The controllers of one database. Each answers for every stream.

    A client keeps asking the controller that answered last, or the owner of the stream. If that
    controller fails, the client asks each other controller once: a repeated note changes nothing.

    >>> controllers = Controllers("http://a:7464, http://b:7464/")
    >>> controllers.pass_over("http://a:7464")
    >>> controllers.current
    'http://b:7464'
    """

    def __init__(self, urls: str) -> None:
        if not isinstance(urls, str):
            message = f"the URL of a controller is text, not {urls!r}: use http://127.0.0.1:7464"
            raise Unreadable(message)
        self.urls = tuple(url.strip().rstrip("/") for url in urls.split(",") if url.strip())
        if not self.urls:
            raise Unreadable("not the URL of a controller: use http://127.0.0.1:7464")
        for url in self.urls:
            _check_url(url)
        self._at = 0
        self._doubted: dict[str, int] = {}

    @property
    def current(self) -> str:
        return self.urls[self._at]

    def prefer(self, url: str | None) -> None:
        if url not in self.urls:
            return
        doubts = self._doubted.get(url, 0)
        if doubts:
            self._doubted[url] = doubts - 1
        else:
            self._at = self.urls.index(url)

    def pass_over(self, url: str) -> None:
        self._doubted[url] = DOUBTS_BEFORE_RETRY
        if url == self.current:
            self._at = (self._at + 1) % len(self.urls)


def build_authorization(token: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the header with `token`, or with the environment's token.

    >>> build_authorization(None, {}), build_authorization("", {ENVIRONMENT_VARIABLE: "nt_1_x"})
    ({}, {})
    >>> build_authorization(None, {ENVIRONMENT_VARIABLE: " nt_1_x "})
    {'Authorization': 'Bearer nt_1_x'}
    """
    token_text = (environment.get(ENVIRONMENT_VARIABLE, "") if token is None else token).strip()
    if not token_text:
        return {}
    if not _VISIBLE_ASCII.fullmatch(token_text):
        raise Unreadable("the token has invalid characters: copy it again")
    return {"Authorization": f"Bearer {token_text}"}


def _check_url(url: str) -> None:
    if "@" in url:  # the URL may contain a password
        raise Unreadable(
            "the URL of a controller cannot have a user or password: remove the part before the @"
        )
    if not url.lower().startswith(("http://", "https://")):
        scheme_fault = "another" if "://" in url else "no"
        remedy = f"use http://{url.rpartition('//')[2]}, or https://"
        raise Unreadable(f"{url!r} has {scheme_fault} scheme: {remedy}")
    if url.endswith("/v1"):
        raise Unreadable(f"{url!r} contains the path of the API: use {url.removesuffix('/v1')}")
