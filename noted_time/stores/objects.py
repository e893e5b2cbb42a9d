"""Objects of a bucket as files.

An object is created by a put with the condition that its key is free. If the answer gets lost, a
retry meets its own object, so a refused put compares the object with its bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache, partial
from typing import Any, BinaryIO
from uuid import uuid4

from noted_time.deadlines import call_in_thread
from noted_time.stores.buckets import Bucket, UnreadableKey, read_whole
from noted_time.stores.disk import DirectoryStore
from noted_time.stores.object_listing import ObjectListing
from noted_time.stores.places import STORE_CREDENTIALS, LogPath, ObjectPath
from noted_time.stores.port import CanResume, Listing, LogStore, Publish, Seconds, Version
from noted_time.values import Recreated, Rejected, Unreachable

TAIL_BYTES = 64 * 1024
"""Most footers of Parquet files are smaller."""

MAX_PUTS = 4
REQUEST_TIMEOUTS = {"timeout": timedelta(seconds=30), "connect_timeout": timedelta(seconds=4)}
MAX_RETRIES = 6
LIST_S = 60.0

TRIAL_NAME = ".conditional-put"


def store_of(path: LogPath) -> LogStore:
    if isinstance(path, ObjectPath):
        return open_bucket(path.bucket)
    return DirectoryStore()


@cache
def open_bucket(url: str) -> ObjectStore:
    return ObjectStore(url)


class ObjectStore:
    """The objects of a bucket. Raises `ImportError` without obstore."""

    def __init__(self, url: str, list_s: float = LIST_S) -> None:
        """Wait `list_s` for each page of a list."""
        process = "each process that reads or appends"
        self._bucket = Bucket(url, process, "files", REQUEST_TIMEOUTS, MAX_RETRIES)
        self._is_azure = STORE_CREDENTIALS[url.partition(":")[0]].startswith("AZURE")
        self._is_tried = False
        self._list_s = list_s

    def list_names(self, directory: LogPath) -> list[str]:
        with suppress(FileNotFoundError):
            return [*self._list_parts(directory)]
        return []

    def watch(
        self, directory: LogPath, monotonic: Seconds, can_resume: CanResume | None = None
    ) -> Listing:
        list_after = self._list_parts if can_resume is None else self._list_after
        return ObjectListing(partial(list_after, directory), monotonic, can_resume)

    def _list_parts(self, directory: LogPath, _: str = "") -> dict[str, Version | None]:
        """Return the objects, and the inner directories without a version."""
        try:
            return self._list_directory(directory)
        except UnreadableKey:
            parts: dict[str, Version | None] = {}
            for key, version in self._list_after(directory, "").items():
                name, slash, _ = key.partition("/")
                parts[name] = None if slash else version
            return parts

    def _list_directory(self, directory: LogPath) -> dict[str, Version | None]:
        ask = partial(self._call, "list_with_delimiter", directory)
        page = call_in_thread(str(directory), self._list_s, ask)
        versions = {prefix.rstrip("/"): None for prefix in page["common_prefixes"]}
        versions |= {meta["path"]: self._version(meta) for meta in page["objects"]}
        if not versions:
            self._check_absence(directory)
            raise FileNotFoundError(f"{directory} has no objects")
        return {key.rpartition("/")[2]: versions[key] for key in versions if key != _key(directory)}

    def _list_after(self, directory: LogPath, after_name: str) -> dict[str, Version | None]:
        """Return all objects below the directory. A key that cannot be a path has no version."""
        prefix = f"{_key(directory)}/"
        try:
            versions = self._list_keys(directory, prefix + after_name if after_name else None)
        except UnreadableKey as error:
            inner, is_inside, _ = error.key[len(prefix) :].partition("/")
            if is_inside and inner.strip("."):  # such as a//b
                versions = {error.key: None, **self._list_tree(directory)}
            else:  # such as /b or ../b, which sort before names with rows
                versions = {
                    error.key: None,
                    **self._list_keys(directory, prefix + max(after_name, "0")),
                }
        return {key[len(prefix) :]: versions[key] for key in versions if len(key) > len(prefix)}

    def _list_tree(self, directory: LogPath) -> dict[str, Version | None]:
        """Return the keys of all objects, directory by directory."""
        versions: dict[str, Version | None] = {}
        for name, version in self._list_directory(directory).items():
            path = directory / name
            if version:
                versions[_key(path)] = version
                continue
            for inner_name, inner_version in self._list_after(path, "").items():
                versions[f"{_key(path)}/{inner_name}".rstrip("/")] = inner_version
        return versions

    def _list_keys(self, directory: LogPath, after: str | None) -> dict[str, Version | None]:
        pages = self._call("list", directory, offset=after, chunk_size=1000)
        versions = dict[str, Version | None]()
        last_key = ""
        read_page = partial(self._bucket.read_page, str(directory), pages)
        while page := call_in_thread(str(directory), self._list_s, read_page):
            keys = {meta["path"]: self._version(meta) for meta in page}
            if min(keys) <= last_key:
                raise Unreachable(f"{directory}: no answer: its list does not rise by page")
            versions |= keys
            last_key = max(keys)
        if not versions:
            self._check_absence(directory)
        return versions

    def _check_absence(self, directory: LogPath) -> None:
        """Raise `Unreachable` unless the store reports a random key as missing."""
        if not self._bucket.has_answered(_key(directory / uuid4().hex)):
            fact = "no objects are listed, and a random one is not said to be missing"
            raise Unreachable(f"{directory}: no answer of an object store: {fact}")

    def open(self, path: LogPath, version: Version | None = None) -> ObjectFile:
        return ObjectFile(self, path, version)

    def read(
        self, path: LogPath, first: int, last: int, version: Version | None
    ) -> tuple[bytes, Version]:
        """Return a range, with `first < 0` from the end, if the ETag has not changed."""
        if first < 0 and version is None and self._is_azure:  # no ranges from the end
            version = self._version(self._call("head", path))
        if first < 0 and version is not None:
            first = max(0, version.size + first)
            last = version.size
        options: dict[str, object] = {"range": (first, last) if first >= 0 else {"suffix": -first}}
        if version is not None and version.etag:
            options["if_match"] = version.etag
        try:
            body, meta = self._call("get", path, collect=read_whole, options=options)
        except self._bucket.errors.PreconditionError:
            fact = "the object was replaced after it was listed"
            raise Recreated(f"file log object {path}", fact) from None
        except (Rejected, Unreachable):  # no range is inside an empty object
            listed_version = None
            with suppress(Rejected, Unreachable):  # the first error says more
                listed_version = self.identify(path) if first < 0 else None
            if listed_version is not None and not listed_version.size:
                raise Rejected(f"{path} is empty") from None
            raise
        return body, self._version(meta)

    def _version(self, meta: Any) -> Version:  # noqa: ANN401 - a dict of obstore
        etag = meta["e_tag"] or ""
        is_bare = self._is_azure and etag and '"' not in etag  # as Azure lists them
        return Version(meta["size"], f'"{etag}"' if is_bare else etag)

    def identify(self, path: LogPath) -> Version | None:
        with suppress(FileNotFoundError):
            return self._version(self._call("head", path))
        return None

    def prepare(self, directory: LogPath) -> None:
        """Objects need no directories."""

    def sync(self, directory: LogPath) -> None:
        """An object is durable once it is visible."""

    @contextmanager
    def create(self, directory: LogPath, write: Callable[[BinaryIO], object]) -> Iterator[Publish]:
        self._try_condition(directory)
        buffer = io.BytesIO()
        write(buffer)
        yield partial(self._put, buffer.getvalue())

    def _put(self, body: bytes, path: LogPath) -> bool:
        for remaining_puts in reversed(range(MAX_PUTS)):
            try:
                if self._put_once(body, path):
                    return True
            except Unreachable:
                if not remaining_puts:
                    raise
            with suppress(FileNotFoundError):  # the put failed
                tail, version = self.read(path, -TAIL_BYTES, 0, None)
                return version.size == len(body) and body.endswith(tail)
        raise Unreachable(f"{path} is neither there nor can it be created: try again")

    def _put_once(self, body: bytes, path: LogPath) -> bool:
        with suppress(self._bucket.errors.AlreadyExistsError):
            self._call("put", path, body, mode="create", use_multipart=False)
            return True
        return False

    def _try_condition(self, directory: LogPath) -> None:
        """Raise `Rejected` if the store replaces objects in spite of the condition."""
        trial = directory / TRIAL_NAME
        if not self._is_tried and all(self._put_once(uuid4().bytes, trial) for _ in range(2)):
            raise Rejected(
                f"{trial} was created twice: the store ignores If-None-Match of a put, so one "
                "writer could replace the rows of another; append to a store with conditional puts"
            )
        self._is_tried = True

    def _call(self, function: str, path: LogPath, *arguments: object, **options: Any) -> Any:  # noqa: ANN401
        return self._bucket.call(function, str(path), _key(path), *arguments, **options)


class ObjectFile(io.RawIOBase):
    """An object as a file. One request reads its last bytes, and one each other range."""

    def __init__(self, store: ObjectStore, path: LogPath, version: Version | None) -> None:
        super().__init__()
        self._store = store
        self._path = path
        self._at = 0
        self._tail, self.version = store.read(path, -TAIL_BYTES, 0, version)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = (0, self._at, self.version.size)[whence] + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        start = self._at
        size_of_object = self.version.size
        if size is None or size < 0:
            stop = size_of_object
        else:
            stop = min(size_of_object, start + size)
        tail_start = size_of_object - len(self._tail)
        if tail_start <= start or stop <= start:
            content = self._tail[max(start - tail_start, 0) : max(stop - tail_start, 0)]
        else:
            content, _ = self._store.read(self._path, start, stop, self.version)
        self._at = max(start, stop)
        return content


def _key(path: LogPath) -> str:
    if isinstance(path, ObjectPath):
        return path.key
    raise TypeError(path)
