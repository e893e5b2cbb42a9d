"""Checkpoints in object stores, against a store on loopback."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from noted_time import Rejected, Unreachable
from spark_integration.checkpoint import files
from spark_integration.checkpoint.files import parse_place
from spark_integration.checkpoint.query_progress import QueryProgress
from tests.support.object_store import SECRET, ObjectStore

pytest.importorskip("obstore")
AZURE = "abfss://lake@account.dfs.core.windows.net"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Return a store with the bucket `lake`, and put its address into the environment."""
    (tmp_path / "lake" / "q" / "offsets").mkdir(parents=True)
    with ObjectStore(tmp_path) as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


def plan(store: ObjectStore, batch: int) -> None:
    """Write what Spark writes before it runs a batch; the watermark is its number."""
    offsets = store.root / "lake" / "q" / "offsets"
    (offsets / str(batch)).write_text(f'v1\n{{"batchWatermarkMs": {batch}}}\n-')


@pytest.mark.parametrize(
    ("checkpoint", "place"),
    [
        ("/data/counts", ("", "", "/data/counts")),
        ("counts #1?", ("", "", "counts #1?")),
        ("file:/data/counts", ("file", "", "/data/counts")),
        ("file:///data/counts", ("file", "", "/data/counts")),
        ("/Volumes/main/a/counts", ("", "", "/Volumes/main/a/counts")),
        ("dbfs:/counts", ("dbfs", "", "/dbfs/counts")),
        ("dbfs:///counts", ("dbfs", "", "/dbfs/counts")),
        ("dbfs:/Volumes/main/a", ("dbfs", "", "/Volumes/main/a")),
        ("hdfs://name:8020/counts", ("hdfs", "name:8020", "/counts")),
        ("s3://lake", ("s3", "lake", "")),
        ("s3a://my.lake/a=1/./b//c d#/", ("s3a", "my.lake", "a=1/b/c d#")),
        ("S3A://lake/a", ("s3a", "lake", "a")),
        (f"{AZURE}/a", ("abfss", "lake@account.dfs.core.windows.net", "a")),
        ("gs://lake/a", ("gs", "lake", "a")),
    ],
)
def test_checkpoint_is_found_by_its_uri(checkpoint: str, place: tuple[str, str, str]) -> None:
    """Spark finds it there, too."""
    assert parse_place(checkpoint) == place


@pytest.mark.parametrize(
    ("checkpoint", "says"),
    [
        ("wasbs://lake@account.blob.core.windows.net/a", "are read, not wasbs:"),
        ("s3n://lake/a", "are read, not s3n:"),
        ("s3a:///a", "must be s3a://BUCKET/PATH"),
        ("gs:lake/a", "must be gs://BUCKET/PATH"),
        ("abfss://account.dfs.core.windows.net/a", "must be abfss://CONTAINER@ACCOUNT"),
        (f"s3a://us:{SECRET}@lake/a", "AWS_ACCESS_KEY_ID"),
        (f"abfss://lake:{SECRET}@account.dfs.core.windows.net/a", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_checkpoint_that_cannot_be_read_is_refused_at_once(checkpoint: str, says: str) -> None:
    """The error repeats no secret."""
    with pytest.raises(Rejected, match=says) as refusal:
        QueryProgress(checkpoint)

    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize("where", ["s3a://lake", AZURE, "gs://lake"])
def test_offset_log_in_a_store_is_followed(store: ObjectStore, where: str) -> None:
    """The log is listed once. Each batch is then read once, by its name."""
    (store.root / "lake" / "q" / "metadata").write_text('{"id": "an-id"}')
    plan(store, 9)
    progress = QueryProgress(f"{where}/q")
    watermarks = [progress.read_watermark(9), progress.read_watermark(9)]
    plan(store, 10)
    watermarks.append(progress.read_watermark(10))

    assert (watermarks, progress.read_query_id()) == ([9, 9, 10], "an-id")
    names = ["9", "10", "10", "10", "11"]
    requests = ["LIST lake/q/offsets/", *(f"GET lake/q/offsets/{name}" for name in names)]
    assert store.requests == [*requests, "GET lake/q/metadata"]


@pytest.mark.parametrize("where", ["s3a://lake", AZURE, "gs://lake"])
@pytest.mark.usefixtures("store")
def test_store_without_the_log_says_so(where: str) -> None:
    with pytest.raises(Rejected, match=f"'{where}/elsewhere' .* it has no batch yet"):
        QueryProgress(f"{where}/elsewhere").read_watermark(0)
    with pytest.raises(Rejected, match="no metadata file"):
        QueryProgress(f"{where}/q").read_query_id()


@pytest.mark.parametrize("where", ["s3a://lake", AZURE, "gs://lake"])
@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        (404, Rejected, "does not exist at this endpoint"),
        (403, Rejected, r"may not be listed and read \(.*403.*\): set (AWS|AZURE|GOOGLE)_"),
        (401, Rejected, r"may not be listed and read \(.*401.*\): set (AWS|AZURE|GOOGLE)_"),
        (503, Unreachable, "no answer: .*503"),
        (0, Unreachable, "no answer: .*error sending request"),
    ],
)
def test_store_error_names_the_checkpoint_and_the_remedy(  # noqa: PLR0913, PLR0917 - a table
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    fault: int,
    kind: type[Exception],
    says: str,
) -> None:
    """The error comes in bounded time, and repeats no secret."""
    if not fault:
        monkeypatch.setattr(files, "REQUEST_TIMEOUTS", {"timeout": timedelta(seconds=0.2)})
    monkeypatch.setattr(files, "MAX_RETRIES", 1)
    store.fault = fault
    with pytest.raises(kind, match=says) as error:
        QueryProgress(f"{where}/q").read_watermark(0)

    assert f"checkpoint_location='{where}/q'" in str(error.value)
    assert SECRET not in str(error.value)


def test_missing_credentials_are_named(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has no role with rights, either."""
    for name in "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY":
        monkeypatch.delenv(name)
    store.fault = 404

    with pytest.raises(Rejected, match=r"needs credentials .* set AWS_ACCESS_KEY_ID"):
        QueryProgress("s3a://lake/q").read_watermark(0)


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ImportError, match=r"needs obstore: pip install .*\[spark\]"):
        QueryProgress("s3a://lake/q").read_watermark(0)
