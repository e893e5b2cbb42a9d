"""Reads the records of Kafka Connect's offsets topic: how far Debezium has read its databases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

Content: TypeAlias = Mapping[str, Any]

PREFIX_NAMES = ("server", "server_id")
"""The names of the topic prefix in a source partition; MongoDB's is the second."""

US_PER_SECOND = 1_000_000


class OffsetKey(NamedTuple):
    """The key of an offset: a connector, and its name for a part of the source."""

    connector: str
    partition: Content

    @property
    def prefix(self) -> str | None:
        """Return the prefix of the connector's topics, `None` if it is not of Debezium.

        >>> read_key(b'["shop", {"server": "sales"}]').prefix
        'sales'
        """
        for name in PREFIX_NAMES:
            prefix = self.partition.get(name)
            if isinstance(prefix, str):
                return prefix
        return None


class SourceCommit(NamedTuple):
    """A commit of the source: its time in µs, and its place in the source's log."""

    time_us: int
    place: tuple[object, ...]


class SourceOffset(NamedTuple):
    """A committed offset.

    - `commit`: the last commit that was read, `None` if the offset has no time.
    - `snapshot`: the kind of the snapshot that is running.
    - `commit_lsn`: PostgreSQL's position of the last commit.
    - `is_postgresql`: whether the source has such positions.
    """

    commit: SourceCommit | None
    snapshot: str | None = None
    commit_lsn: int | None = None
    is_postgresql: bool = True


def read_key(key: bytes | None) -> OffsetKey | None:
    """Return the parts of a key, `None` for one that Connect did not write."""
    match read_json(key):
        case [str(connector), dict(partition)]:
            return OffsetKey(connector, partition)
    return None


def read_offset(value: bytes) -> SourceOffset | None:
    """Return the content of an offset, `None` for a value that Connect did not write.

    >>> offset = read_offset(b'{"ts_usec": 1500, "lsn_commit": 7, "lsn": 9}')
    >>> offset.commit, offset.commit_lsn
    (SourceCommit(time_us=1500, place=(7,)), 7)
    """
    content = read_json(value)
    if not isinstance(content, dict):
        return None
    lsn = content.get("lsn_commit")
    commit_lsn = lsn if isinstance(lsn, int) else None
    return SourceOffset(
        _find_commit(content),
        _find_snapshot(content),
        commit_lsn,
        is_postgresql="lsn" in content or "ts_usec" in content,
    )


def read_json(text: bytes | str | None) -> object:
    """Return the value of a JSON text, `None` for any other text."""
    try:
        return json.loads(text or "null")
    except ValueError:
        return None


def _find_commit(content: Content) -> SourceCommit | None:
    match content:
        case {"ts_usec": int(time)}:  # PostgreSQL
            return SourceCommit(time, (content.get("lsn_commit"),))
        case {"sec": int(time), "ord": int(order)}:  # MongoDB
            return SourceCommit(time * US_PER_SECOND, (time, order))
        case {"ts_sec": int(time), "file": str(file)}:  # MySQL and MariaDB: the second began then
            return SourceCommit(time * US_PER_SECOND, (file, content.get("pos")))
    return None


def _find_snapshot(content: Content) -> str | None:
    if content.get("initsync"):
        return "initial"
    snapshot = content.get("snapshot")
    if snapshot not in (None, False, "false"):
        return "initial" if snapshot in (True, "true") else str(snapshot).lower()
    for name, value in content.items():
        if name.startswith("incremental_snapshot_") and value:
            return "incremental"
    return None
