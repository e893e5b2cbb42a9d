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
from fastapi.responses import RedirectResponse

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


class Page(NamedTuple):
    """A page as it is sent; `ends` is how the name of its file does."""

    body: bytes
    ends: str
    caching: str = FOREVER


NAMED = f'"{ASSETS[1:]}'.encode()
PAGES: Mapping[str, Page] = {
    "/": Page(FILES[INDEX].replace(NAMED, NAMED + f"{VERSION}/".encode()), "html", FRESH),
    **{
        f"{ASSETS}{VERSION}/{name}": Page(body, name.rpartition(".")[2])
        for name, body in FILES.items()
        if name != INDEX
    },
}
DOCS = "/docs"
PATHS = frozenset(PAGES)

router = APIRouter(include_in_schema=False)


async def file(request: Request) -> Response:
    """Return the file of that path."""
    body, ends, caching = PAGES[request.url.path]
    headers = {**HEADERS, "cache-control": caching}
    return Response(body, headers=headers, media_type=TYPES[ends])


for each in PAGES:
    router.add_api_route(each, file, methods=["GET", "HEAD"])


@router.get(DOCS)
async def docs() -> RedirectResponse:
    """Lead to the reference of the API; relative, as a proxy may serve the pages below a path."""
    return RedirectResponse("openapi.json")
