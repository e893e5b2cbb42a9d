"""Roots of file logs, as paths and as URLs."""

import sys
from pathlib import Path

import pytest

from noted_time import Rejected
from noted_time.stores import LogPath, ObjectPath, objects, parse_root, store_of

SECRET = "c2VjcmV0"  # noqa: S105 - no one else's


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/data/log", Path("/data/log")),
        ("log", Path("log")),
        ("C:\\data\\log", Path("C:\\data\\log")),
        (Path("log"), Path("log")),
        ("file:///data/a%20log", Path("/data/a log")),
        ("s3://lake", ObjectPath("s3://lake", "")),
        ("S3A://lake//topics/./a=1/", ObjectPath("s3a://lake", "topics/a=1")),
        ("gs://lake/topics", ObjectPath("gs://lake", "topics")),
        (
            "abfss://lake@account.dfs.core.windows.net/topics",
            ObjectPath("abfss://lake@account.dfs.core.windows.net", "topics"),
        ),
    ],
)
def test_a_root_is_a_path_or_a_url(root: str | Path, path: LogPath) -> None:
    assert parse_root(root) == path
    assert parse_root(str(path)) == path


@pytest.mark.parametrize(
    ("root", "says"),
    [
        ("hdfs://name/topics", "not of hdfs://"),
        (f"s3://us:{SECRET}@lake/topics", "must be s3://BUCKET/PATH, .* AWS_ACCESS_KEY_ID"),
        (f"abfss://lake:{SECRET}@a.dfs.core.windows.net/t", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("abfss://account.dfs.core.windows.net/topics", "must be abfss://CONTAINER@ACCOUNT"),
        (Path("s3://lake/topics"), "drops a slash: pass it as a str"),
    ],
)
def test_invalid_roots_are_refused(root: str | Path, says: str) -> None:
    """The error names the form, and repeats no secret."""
    with pytest.raises(Rejected, match=says) as refusal:
        parse_root(root)

    assert SECRET not in str(refusal.value)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs it."""
    objects.open_bucket.cache_clear()
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ImportError, match=r"s3://lake needs obstore: pip install .*\[files\]"):
        store_of(parse_root("s3://lake/topics"))
