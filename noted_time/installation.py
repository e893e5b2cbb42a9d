"""The commands that run noted-time, and install more of it from the same source."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import urlsplit

PROGRAM_VARIABLE = "NOTED_TIME_PROGRAM"
"""Set by `./run` of a clone."""

PROGRAM_MODULES = frozenset(("noted_time", "noted_time_cli", "controller"))
UVX_DIRECTORY = "archive-v0"
"""A directory in uv's cache with the environments of `uvx`."""


def name_program() -> str:
    """Return the program's name as the user typed it, such as ``./run noted-time`` in a clone."""
    if program := os.environ.get(PROGRAM_VARIABLE):
        return program
    if UVX_DIRECTORY in Path(sys.prefix).parts:
        return f"uvx --from {build_requirement(_read_origin(), 'controller')} noted-time"
    main_spec = getattr(sys.modules["__main__"], "__spec__", None)
    if main_spec is not None and main_spec.parent in PROGRAM_MODULES:
        return f"{quote(sys.orig_argv[0])} -m {main_spec.parent}"
    return "noted-time"


def install_command(extra: str) -> str:
    """Return the command that installs an extra where this Python finds it."""
    command = build_command(_read_origin(), extra)
    if PROGRAM_VARIABLE in os.environ:  # the user's own pip is of another environment
        return f"{quote(os.path.relpath(sys.executable))} -m {command}"
    return command


def _read_origin() -> Mapping[str, Any]:
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - slow

    try:
        record = distribution("noted-time").read_text("direct_url.json")
    except PackageNotFoundError:  # on the PYTHONPATH, without metadata
        record = None
    origin: Mapping[str, Any] = json.loads(record or "{}")
    return origin


def build_command(origin: Mapping[str, Any], extra: str) -> str:
    """Return the command that repeats an installation from its `direct_url.json` (PEP 610).

    >>> git = {"vcs": "git", "commit_id": "1a2b"}
    >>> build_command({"url": "https://git.example/noted-time", "vcs_info": git}, "kafka")
    'pip install "noted-time[kafka] @ git+https://git.example/noted-time@1a2b"'

    Without the source, the user must replace PATH: another person may own the plain name.

    >>> build_command({}, "kafka")
    'pip install "PATH[kafka]", where PATH is a clone of noted-time or its wheel'
    """
    requirement = build_requirement(origin, extra)
    if requirement.startswith('"PATH'):
        return f"pip install {requirement}, where PATH is a clone of noted-time or its wheel"
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install -e {requirement}"
    return f"pip install {requirement}"


def build_requirement(origin: Mapping[str, Any], extra: str) -> str:
    """Return what pip installs, `"PATH"` if the place of an installation from files is unknown."""
    extras = f"[{extra}]" if extra else ""
    url = origin.get("url", "")
    commit = origin.get("vcs_info")
    if commit:
        return f'"noted-time{extras} @ {commit["vcs"]}+{url}@{commit["commit_id"]}"'
    if url and not url.startswith("file:"):
        return f'"noted-time{extras} @ {url}"'
    from urllib.request import url2pathname  # noqa: PLC0415 - slow: it imports email and http

    path = url2pathname(urlsplit(url).path)
    if not url or not Path(path).exists():
        path = "PATH"
    return f'"{path}{extras}"'
