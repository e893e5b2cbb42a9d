"""Checks a file log for `noted-time doctor`."""

from __future__ import annotations

import time
from collections.abc import Iterator

from noted_time.extending import join_names, parse_root, pluralize
from noted_time_cli.extending import Finding
from noted_time_extensions.files.directories import LogDirectories

CHECK_NAME = "file log"


def check_log(root: str, stream: str) -> Iterator[Finding]:
    """Yield a finding on the names below a root, or raise `ForeignFile`."""
    log = LogDirectories(parse_root(root), stream, time.monotonic)
    log.list_all()
    if not log.segments():
        fact = f"{log.root / stream} holds no file log"
        remedy = "correct --log: it is the folder above the stream's"
        yield Finding(CHECK_NAME, "wrong", fact, remedy)
        return
    other_names = [
        str(directory / name) for directory, name, kind in log.list_kinds() if kind == "passed over"
    ]
    names = join_names(other_names) if other_names else "none"
    count = pluralize(len(other_names), "name")
    yield Finding(CHECK_NAME, "ok", f"{count} without rows: {names}")
    log.check_names()
