"""The page for people: the dashboard's files as they are in the package.

They are open, have nothing of any stream, and need no database: they get all that they show from
the API, with the token that is typed in.

The dashboard's modules import each other, and a browser must not mix those of two versions. So
their path has the digest of all files. The page, which a browser asks for each time, names that
path, and what lies there never changes; a controller does not serve the files of other versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

INDEX = "index.html"
TYPES: Mapping[str, str] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
FILES: Mapping[str, bytes] = {
    each.name: each.read_bytes()
    for each in sorted(files("controller.api.pages").joinpath("dashboard").iterdir(), key=str)
    if each.name.rpartition(".")[2] in TYPES
}
"""The dashboard's files by name."""

ASSETS = "/assets/"
VERSION = sha256(repr(FILES).encode()).hexdigest()[:16]
"""The digest of the dashboard's files, the same on every replica of a version."""

FRESH = "no-cache"
FOREVER = "public, max-age=31536000, immutable"
HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "referrer-policy": "no-referrer",
}
NOT_MODIFIED = 304


class Page(NamedTuple):
    """A page as it is sent; the tag is of its content, the same on every replica."""

    body: bytes
    media_type: str
    caching: str
    tag: str

    @classmethod
    def of(cls, body: bytes, ends: str, caching: str = FOREVER) -> Page:
        """Return the page with its tag; `ends` is how the name of its file does.

        >>> Page.of(b"", "css").tag
        '"e3b0c44298fc1c14"'
        """
        return cls(body, TYPES[ends], caching, f'"{sha256(body).hexdigest()[:16]}"')

    def answer(self, request: Request) -> Response:
        """Return the page, or a 304 if the caller has it already."""
        headers = {**HEADERS, "cache-control": self.caching, "etag": self.tag}
        known = request.headers.get("if-none-match", "").replace("W/", "").split(",")
        if self.tag in map(str.strip, known):
            return Response(status_code=NOT_MODIFIED, headers=headers)
        return Response(self.body, headers=headers, media_type=self.media_type)


NAMED = f'"{ASSETS[1:]}'.encode()
PAGES: Mapping[str, Page] = {
    "/": Page.of(FILES[INDEX].replace(NAMED, NAMED + f"{VERSION}/".encode()), "html", FRESH),
    **{
        f"{ASSETS}{VERSION}/{name}": Page.of(body, name.rpartition(".")[2])
        for name, body in FILES.items()
        if name != INDEX
    },
}
PATHS = frozenset(PAGES)

router = APIRouter(include_in_schema=False)


async def file(request: Request) -> Response:
    """Return the file of that path."""
    return PAGES[request.url.path].answer(request)


for each in PAGES:
    router.add_api_route(each, file, methods=["GET", "HEAD"])
