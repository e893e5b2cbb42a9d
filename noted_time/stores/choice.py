"""Chooses the store of a path."""

from __future__ import annotations

from functools import cache

from noted_time.stores.disk import DISK
from noted_time.stores.objects import ObjectStore
from noted_time.stores.places import LogPath, ObjectPath
from noted_time.stores.port import Store


def store_of(path: LogPath) -> Store:
    return open_bucket(path.bucket) if isinstance(path, ObjectPath) else DISK


@cache
def open_bucket(url: str) -> Store:
    return ObjectStore(url)
