"""The pages for people: the dashboard's files as they are in the package, and the API's page.

They are open, have nothing of any stream, and need no database: all that they show they ask of the
API, with the token that is typed in.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from fastapi import APIRouter, Request, Response

from controller.api.api_page import api_page

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES: Mapping[str, tuple[str, str]] = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/dashboard.css": ("dashboard.css", "text/css; charset=utf-8"),
    "/dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
    "/favicon.svg": ("favicon.svg", "image/svg+xml"),
}
"""Each path, and the file in the package with its type."""

DOCS = "/docs"
PATHS = frozenset((*FILES, DOCS))

HEADERS: Mapping[str, str] = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
NOT_MODIFIED = 304

router = APIRouter(include_in_schema=False)


class Page(NamedTuple):
    """A page as it is sent; the tag is of its content, the same on every replica."""

    body: bytes
    media_type: str
    tag: str

    @classmethod
    def of(cls, body: bytes, media_type: str) -> Page:
        """Return the page with its tag.

        >>> Page.of(b"", "text/css").tag
        '"e3b0c44298fc1c14"'
        """
        return cls(body, media_type, f'"{sha256(body).hexdigest()[:16]}"')

    def answer(self, request: Request) -> Response:
        """Return the page, or that the caller has it already."""
        headers = {**HEADERS, "etag": self.tag}
        known = request.headers.get("if-none-match", "").replace("W/", "").split(",")
        if self.tag in map(str.strip, known):
            return Response(status_code=NOT_MODIFIED, headers=headers)
        return Response(self.body, headers=headers, media_type=self.media_type)


@cache
def _file(path: str) -> Page:
    name, media_type = FILES[path]
    return Page.of(files("controller.api").joinpath("dashboard", name).read_bytes(), media_type)


async def file(request: Request) -> Response:
    """Return the file of that path."""
    return _file(request.url.path).answer(request)


@router.api_route(DOCS, methods=["GET", "HEAD"])
async def docs(request: Request) -> Response:
    """Return the page that describes the API."""
    app = request.app
    if not hasattr(app.state, "docs"):
        text = api_page(app.openapi())
        app.state.docs = Page.of(text.encode(), "text/html; charset=utf-8")
    page: Page = app.state.docs
    return page.answer(request)


for each in FILES:
    router.add_api_route(each, file, methods=["GET", "HEAD"])
