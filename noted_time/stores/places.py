"""Paths of files and objects, and the variables with a store's credentials."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from urllib.parse import unquote

from noted_time.values import Unreadable

AWS_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION; AWS_ENDPOINT_URL if it is not Amazon's"
)
AZURE_CREDENTIALS = (
    "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY, or AZURE_CLIENT_ID with its credentials"
)
GOOGLE_CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT"
STORE_CREDENTIALS = {
    "s3": AWS_CREDENTIALS,
    "s3a": AWS_CREDENTIALS,
    "abfs": AZURE_CREDENTIALS,
    "abfss": AZURE_CREDENTIALS,
    "gs": GOOGLE_CREDENTIALS,
}

_ROOT_URL = re.compile(r"([A-Za-z][\w+.-]+)://([^/]*)(.*)", re.DOTALL)
_URL_AS_PATH = re.compile(rf"(?:{'|'.join(STORE_CREDENTIALS)}):[/\\][^/\\]")


@dataclass(frozen=True, slots=True, order=True)
class ObjectPath:
    """The path of an object: the URL of its bucket, and its key.

    >>> path = ObjectPath("s3://lake", "topics/flights") / "partition=0"
    >>> str(path), path.name, str(path.parent)
    ('s3://lake/topics/flights/partition=0', 'partition=0', 's3://lake/topics/flights')
    """

    bucket: str
    key: str

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.bucket, f"{self.key}/{name}" if self.key else name)

    def __str__(self) -> str:
        return f"{self.bucket}/{self.key}"

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> ObjectPath:
        return ObjectPath(self.bucket, self.key.rpartition("/")[0])


LogPath = Path | ObjectPath


def parse_root(root: str | PathLike[str] | ObjectPath) -> LogPath:
    """Return the path of a log's root, which is a path or a URL.

    >>> parse_root("s3a://lake//topics/"), parse_root("file:///data/log").as_posix()
    (ObjectPath(bucket='s3a://lake', key='topics'), '/data/log')

    Raises `Unreadable` for a URL of another kind or with credentials.
    """
    if isinstance(root, ObjectPath):
        return root
    text = fspath(root)
    if not isinstance(root, str):
        if _URL_AS_PATH.match(text):
            raise Unreadable(f"{text} is a URL in a Path, which drops a slash: pass it as a str")
        return Path(root)
    match = _ROOT_URL.fullmatch(text)
    if match is None:
        return Path(text)
    scheme = match[1].lower()
    bucket = match[2]
    path = match[3]
    if scheme == "file":
        return Path(unquote(path))
    if scheme not in STORE_CREDENTIALS:
        schemes = "://, ".join(("file", *STORE_CREDENTIALS))
        raise Unreadable(
            f"the root of a log is a path or a URL of {schemes}://, not of {scheme}://"
        )
    key = check_bucket("the root of a log", scheme, bucket, path, "the environment")
    return ObjectPath(f"{scheme}://{bucket}", key)


def check_bucket(name: str, scheme: str, bucket: str, path: str, credentials_place: str) -> str:
    """Return the key of a path in a bucket.

    Raises `Unreadable` for another form, without repeating it, as it may have credentials.
    """
    is_azure = STORE_CREDENTIALS[scheme] is AZURE_CREDENTIALS
    form = "BUCKET"
    if is_azure:
        form = "CONTAINER@ACCOUNT.dfs.core.windows.net"
    if not re.fullmatch(r"[^@:]+@[^@:]+" if "@" in form else r"[^@:]+", bucket):
        raise Unreadable(
            f"{name} must be {scheme}://{form}/PATH, with its credentials in {credentials_place}: "
            f"{STORE_CREDENTIALS[scheme]}"
        )
    return posixpath.normpath(f"/{path}").lstrip("/")


def locate_root(root: str | PathLike[str] | ObjectPath, *, is_read_here: bool) -> str:
    """Return a log's root for other processes, as a URL or an absolute path.

    A relative path is of this process's directory. Other machines may have another one, so it is
    refused unless `is_read_here`.

    >>> locate_root("s3://lake/topics", is_read_here=False)
    's3://lake/topics'
    >>> locate_root("/data/log", is_read_here=False)
    '/data/log'
    >>> locate_root("log", is_read_here=True) == str(Path.cwd() / "log")
    True

    Raises `Unreadable` as `parse_root`, and for a relative path.
    """
    place = parse_root(root)
    if isinstance(place, ObjectPath) or place.is_absolute():
        return str(place)
    if is_read_here:
        return str(place.absolute())
    raise Unreadable(
        f"the root {str(place)!r} is relative, and Spark's server may have another directory: pass "
        "an absolute path"
    )
