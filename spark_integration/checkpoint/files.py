"""Opens the files of a checkpoint, on a disk or in an object store."""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from pyarrow import fs

from noted_time import Rejected
from noted_time.stores.buckets import Bucket, read_whole
from noted_time.stores.places import STORE_CREDENTIALS, check_bucket

DISK_SCHEMES = ("", "file", "dbfs")
HADOOP_SCHEMES = ("hdfs", "viewfs")

REQUEST_TIMEOUTS = {"timeout": timedelta(seconds=8), "connect_timeout": timedelta(seconds=4)}
MAX_RETRIES = 2

_CHECKPOINT_URI = re.compile(r"(?:([A-Za-z][\w+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)


class CheckpointPlace(NamedTuple):
    """The location of a checkpoint; for Azure and HDFS `bucket` has the host."""

    scheme: str
    bucket: str
    path: str


def parse_place(checkpoint: str) -> CheckpointPlace:
    """Parse a `checkpointLocation`, or raise `Rejected`.

    >>> parse_place("s3a://lake/flights//hourly/"), parse_place("dbfs:/counts").path
    (CheckpointPlace(scheme='s3a', bucket='lake', path='flights/hourly'), '/dbfs/counts')
    """
    scheme = ""
    bucket = ""
    path = checkpoint
    if match := _CHECKPOINT_URI.fullmatch(checkpoint):
        scheme, bucket, path = match.groups(default="")
    scheme = scheme.lower()
    if scheme not in {*DISK_SCHEMES, *HADOOP_SCHEMES, *STORE_CREDENTIALS}:
        schemes = ":, ".join((*DISK_SCHEMES[1:], *HADOOP_SCHEMES, *STORE_CREDENTIALS))
        raise Rejected(
            f"checkpoint_location={checkpoint!r}: only paths and {schemes}: are read, not {scheme}:"
        )
    if scheme in STORE_CREDENTIALS:
        environment = "the driver's environment"
        path = check_bucket("checkpoint_location", scheme, bucket, path, environment)
    if scheme == "dbfs" and not path.startswith("/Volumes/"):
        path = f"/dbfs{path}"  # where drivers mount it
    return CheckpointPlace(scheme, bucket, path)


def open_checkpoint(checkpoint: str) -> Files:
    place = parse_place(checkpoint)
    if place.scheme in STORE_CREDENTIALS:
        return StoredFiles(checkpoint, place)
    if place.scheme in HADOOP_SCHEMES:
        return Files(*fs.FileSystem.from_uri(checkpoint))
    return Files(fs.LocalFileSystem(), place.path)


class Files:
    """The files below a path of a file system, with relative names."""

    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self._system = system
        self._path = path

    def list_names(self, directory: str) -> list[str]:
        paths = self._list_paths(posixpath.join(self._path, directory))
        return [posixpath.basename(path) for path in paths]

    def read(self, name: str) -> str | None:
        with suppress(FileNotFoundError):
            return self._read_bytes(posixpath.join(self._path, name)).decode()
        return None

    def write(self, name: str, text: str) -> None:
        path = posixpath.join(self._path, name)
        self._system.create_dir(posixpath.dirname(path), recursive=True)
        with self._system.open_output_stream(f"{path}.tmp") as stream:
            stream.write(text.encode())
        self._system.move(f"{path}.tmp", path)

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._system.delete_file(posixpath.join(self._path, name))

    def _list_paths(self, directory: str) -> list[str]:
        selector = fs.FileSelector(directory, allow_not_found=True)
        return [info.path for info in self._system.get_file_info(selector)]

    def _read_bytes(self, path: str) -> bytes:
        return bytes(self._system.open_input_stream(path).read())


class StoredFiles(Files):
    """The files below a prefix in a bucket, with credentials from the environment."""

    def __init__(self, checkpoint: str, place: CheckpointPlace) -> None:
        super().__init__(None, place.path)
        self._bucket = Bucket(
            f"{place.scheme}://{place.bucket}",
            "the driver",
            "spark",
            REQUEST_TIMEOUTS,
            MAX_RETRIES,
            f"checkpoint_location={checkpoint!r}",
        )

    def write(self, name: str, text: str) -> None:
        self._call("put", posixpath.join(self._path, name), text.encode())

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._call("delete", posixpath.join(self._path, name))

    def _list_paths(self, directory: str) -> list[str]:
        listing = self._call("list_with_delimiter", directory)
        object_paths = [stored_object["path"] for stored_object in listing["objects"]]
        return [*listing["common_prefixes"], *object_paths]

    def _read_bytes(self, path: str) -> bytes:
        body: bytes = self._call("get", path, collect=read_whole)[0]
        return body

    def _call(self, function: str, path: str, *arguments: object, **options: Any) -> Any:  # noqa: ANN401
        return self._bucket.call(function, path, path, *arguments, **options)
