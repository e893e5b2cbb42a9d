"""The command that installs an extra from the same source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


def install_command(extra: str) -> str:
    try:
        record = distribution("noted-time").read_text("direct_url.json")
    except PackageNotFoundError:  # on the PYTHONPATH, without metadata
        record = None
    return build_command(json.loads(record or "{}"), extra)


def build_command(origin: Mapping[str, Any], extra: str) -> str:
    """Return the command that repeats an installation from its `direct_url.json` (PEP 610).

    >>> git = {"vcs": "git", "commit_id": "1a2b"}
    >>> build_command({"url": "https://git.example/noted-time", "vcs_info": git}, "kafka")
    'pip install "noted-time[kafka] @ git+https://git.example/noted-time@1a2b"'

    If the source is unknown or deleted, the user must replace PATH: another person may own the
    plain name.

    >>> build_command({}, "kafka")
    'pip install "PATH[kafka]", where PATH is a clone of noted-time or its wheel'
    """
    extras = f"[{extra}]" if extra else ""
    url, vcs = origin.get("url", ""), origin.get("vcs_info")
    if vcs:
        return f'pip install "noted-time{extras} @ {vcs["vcs"]}+{url}@{vcs["commit_id"]}"'
    if url and not url.startswith("file:"):
        return f'pip install "noted-time{extras} @ {url}"'
    path = url2pathname(urlsplit(url).path)
    if not url or not Path(path).exists():
        return f'pip install "PATH{extras}", where PATH is a clone of noted-time or its wheel'
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f'pip install {editable}"{path}{extras}"'
