"""Serves the files of the dashboard and the page of the calls, which need no token.

A browser must not mix modules of two versions, so their path has the digest of all files.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from controller.api.pages import calls
from noted_time.installation import name_program

INDEX_FILE = "index.html"
MEDIA_TYPES: Mapping[str, str] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
DASHBOARD_FILES: Mapping[str, bytes] = {
    each.name: each.read_bytes()
    for each in sorted(files("controller.api.pages").joinpath("dashboard").iterdir(), key=str)
    if each.name.rpartition(".")[2] in MEDIA_TYPES
}

ASSETS_PATH = "/assets/"
ASSETS_VERSION = sha256(repr(DASHBOARD_FILES).encode()).hexdigest()[:16]

NO_CACHE = "no-cache"
CACHE_FOREVER = "public, max-age=31536000, immutable"
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "referrer-policy": "no-referrer",
}


class Page(NamedTuple):
    """A file as it is sent, and the extension of its name, `ends`."""

    body: bytes
    ends: str
    caching: str = CACHE_FOREVER


ASSET_REFERENCE = f'"{ASSETS_PATH[1:]}'.encode()
PROGRAM_REFERENCE = b'data-program="noted-time"'
PAGES_BY_PATH: Mapping[str, Page] = {
    "/": Page(
        DASHBOARD_FILES[INDEX_FILE]
        .replace(ASSET_REFERENCE, ASSET_REFERENCE + f"{ASSETS_VERSION}/".encode())
        .replace(PROGRAM_REFERENCE, f'data-program="{escape(name_program())}"'.encode()),
        "html",
        NO_CACHE,
    ),
    **{
        f"{ASSETS_PATH}{ASSETS_VERSION}/{name}": Page(body, name.rpartition(".")[2])
        for name, body in DASHBOARD_FILES.items()
        if name != INDEX_FILE
    },
}
DOCS_PATH = "/docs"
PAGE_PATHS = frozenset(PAGES_BY_PATH)

router = APIRouter(include_in_schema=False)


async def file(request: Request) -> Response:
    body, ends, caching = PAGES_BY_PATH[request.url.path]
    headers = {**SECURITY_HEADERS, "cache-control": caching}
    return Response(body, headers=headers, media_type=MEDIA_TYPES[ends])


for each in PAGES_BY_PATH:
    router.add_api_route(each, file, methods=["GET", "HEAD"])


@router.api_route(DOCS_PATH, methods=["GET", "HEAD"])
def docs(request: Request) -> Response:
    """Describe the calls, in a thread, because it may have to build the OpenAPI document first."""
    document: dict[str, Any] = request.app.openapi()
    assets_path = f"{ASSETS_PATH[1:]}{ASSETS_VERSION}/"
    page = calls.write_page(document, assets_path, str(request.base_url).rstrip("/"))
    headers = {**SECURITY_HEADERS, "cache-control": NO_CACHE}
    return Response(page, headers=headers, media_type=MEDIA_TYPES["html"])
