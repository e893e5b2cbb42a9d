"""File logs on a real S3 server that loses answers and slows down."""

import io
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from noted_time import Rejected, Unreachable
from noted_time.stores import Version, object_listing, objects, parse_root, store_of
from noted_time.stores.objects import MAX_RETRIES, REQUEST_TIMEOUTS
from noted_time.values import Recreated
from noted_time_extensions.files import LogEnds, LogTimes, SegmentLogWriter
from noted_time_extensions.files.layout import ForeignFile, UnreadableFile
from noted_time_extensions.files.spark.admission import Slice, find_slices
from noted_time_extensions.files.spark.forms import ColumnForms
from noted_time_extensions.files.spark.log_files import LogFile, LogFiles
from noted_time_extensions.files.spark.log_rows import LogTask, RowShape
from noted_time_extensions.files.spark.query import LogQuery
from noted_time_extensions.files.tests.stores.proxy import Fault, Proxy
from spark_integration.marks.time_range import ALL_TIMES
from tests.support.object_store import SECRET

RACERS = 4
APPENDS = 100


def open_writer(root: str, segment: int = 0) -> SegmentLogWriter:
    return SegmentLogWriter(root, "flights", segments=[segment], event_time="time")


def rows(*times: int, name: str = "x") -> list[dict[str, object]]:
    return [{"time": time, "name": f"{name}-{time}"} for time in times]


def put(bucket: str, key: str, table: pa.Table | bytes) -> None:
    """Put an object as a foreign program does."""
    body = table
    if isinstance(table, pa.Table):
        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        body = buffer.getvalue()
    obstore.put(_store(bucket), key, body)


def _store(bucket: str) -> S3Store:
    return S3Store(bucket.removeprefix("s3://"), client_options={"allow_http": True})


def list_files(root: str) -> dict[int, list[LogFile]]:
    return LogFiles(parse_root(root), "flights").refresh()


def read(root: str) -> list[tuple[int, str]]:
    """Return the rows of all segments. Offsets must have neither gaps nor overlaps."""
    rows_found: list[tuple[int, str]] = []
    for run_ in list_files(root).values():
        for before, after in pairwise(run_):
            assert before.end == after.start
        for file in run_:
            table = pq.read_table(store_of(file.path).open(file.path))
            rows_found += zip(*table.select(["time", "name"]).to_pydict().values(), strict=True)
    return rows_found


def test_rows_are_appended_and_found(bucket: str) -> None:
    """Two writers append in turn. Observers see the ends and the times."""
    root = f"{bucket}/topics"
    first = open_writer(root)
    second = open_writer(root)
    ends = [first.append(rows(1, 2)), second.append(rows(3)), first.append(rows(4))]
    look_result = LogTimes(root, "flights", "time")()

    assert (ends, open_writer(root).position) == ([2, 3, 4], {0: 4})
    assert (look_result.ends, look_result.newest, LogEnds(root, "flights")().ends) == (
        {0: 4},
        {0: 4},
        {0: 4},
    )
    assert [time for time, _ in read(root)] == [1, 2, 3, 4]


def test_append_sends_two_requests(s3: Proxy, bucket: str) -> None:
    """One request looks for the last file, and one puts the next."""
    log = open_writer(f"{bucket}/topics")
    for time in range(2):
        log.append(rows(time))
    s3.counts.clear()
    log.append(rows(2))

    assert s3.counts == {"HEAD": 1, "PUT": 1}


def test_racing_writers_lose_and_double_no_row(s3: Proxy, bucket: str) -> None:
    """Answers to puts get lost, and the store refuses as often as one request is retried."""
    root = f"{bucket}/topics"
    failures = list[Exception]()

    def work(number: int) -> None:
        try:
            log = open_writer(root)
            for time in range(APPENDS):
                log.append(rows(time, name=str(number)))
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    open_writer(root)
    threads = [threading.Thread(target=work, args=(racer,)) for racer in range(RACERS)]
    with s3.spoil(Fault("lost", "PUT", 20, "+0000"), Fault("slow down", "GET", MAX_RETRIES)):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert failures == []
    counts = Counter(name for _, name in read(root))
    assert counts == Counter(f"{n}-{time}" for n in range(RACERS) for time in range(APPENDS))


BATCHES = """
import sys
from noted_time_extensions.files import Batch, SegmentLogWriter
log = SegmentLogWriter(sys.argv[1], "flights", event_time="time")
for number in range(30):
    log.append_once([{"time": number, "name": "b"}], Batch("query", number))
    print(number, flush=True)
"""


def test_killed_driver_appends_each_batch_once(bucket: str, tmp_path: Path) -> None:
    """The next run repeats the batches from the first one."""
    root = f"{bucket}/topics"
    log = tmp_path / "log"
    words = [sys.executable, "-c", BATCHES, root]
    for kill_after in (3, 11, None):
        with (
            log.open("ab") as errors,
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors) as driver,
        ):
            assert driver.stdout is not None
            for line in driver.stdout:
                if kill_after is not None and int(line) >= kill_after:
                    driver.send_signal(signal.SIGKILL)
        assert (driver.returncode == 0) == (kill_after is None), log.read_text()

    assert [time for time, _ in read(root)] == list(range(30))


def test_store_without_conditions_is_refused(s3: Proxy, bucket: str) -> None:
    """The first append fails before it writes a row."""
    log = open_writer(f"{bucket}/topics")
    with (
        s3.spoil(Fault("unconditional", "PUT")),
        pytest.raises(Rejected, match=f"{bucket}/topics.* ignores If-None-Match"),
    ):
        log.append(rows(1))

    assert read(f"{bucket}/topics") == []


def test_object_replaced_below_a_planned_offset_is_named(bucket: str) -> None:
    """Its rows may differ. Beyond the planned offsets, the new object is read."""
    root = f"{bucket}/topics"
    key = "topics/flights/partition=0/flights+0+{:010}.snappy.parquet"
    table = pa.table({"time": [1, 2, 3], "name": ["a", "b", "c"]})
    for start in (0, 3):
        put(bucket, key.format(start), table)
    files = LogFiles(parse_root(root), "flights")
    files.refresh()
    put(bucket, key.format(3), table.slice(0, 2))

    assert files.refresh()[0][-1].end == 5
    files.check_kept({0: 3})
    put(bucket, key.format(3), table)
    files.refresh()
    with pytest.raises(Recreated, match=r"0000000003.snappy.parquet was replaced"):
        files.check_kept({0: 4})


def test_task_does_not_read_a_replaced_object(bucket: str) -> None:
    """The store compares the ETag of the plan."""
    log = open_writer(f"{bucket}/topics")
    log.append(rows(1, 2))
    (file,) = list_files(f"{bucket}/topics")[0]
    put(bucket, str(file.path).removeprefix(f"{bucket}/"), pa.table({"time": [9], "name": ["z"]}))
    with pytest.raises(Recreated, match="was replaced after it was listed"):
        list(shape().read_events(list(find_slices([file], 0, None, 0, NO_FORMS))))


NO_FORMS = ColumnForms("flights", "time")


def shape() -> RowShape:
    columns = StructField("time", TimestampType()), StructField("name", StringType())
    return RowShape(StructType(list(columns)), "time")


def test_task_reads_ranges_of_row_groups(s3: Proxy, bucket: str) -> None:
    """It reads neither the whole object nor unused columns."""
    size = 300_000
    table = pa.table(
        {
            "time": pa.array(range(size), pa.timestamp("ms", "UTC")),
            "name": [f"{number:x}" for number in range(size)],
            "unread": [os.urandom(8) for _ in range(size)],
        }
    )
    log = open_writer(f"{bucket}/topics")
    log.append(table)
    (file,) = list_files(f"{bucket}/topics")[0]
    s3.counts.clear()
    part = Slice(str(file.path), 131_072, 131_080, version=file.version)
    (batch,) = shape().read_events([part])

    assert batch.column("name").to_pylist() == [f"{131_072 + number:x}" for number in range(8)]
    assert s3.counts == {"GET": 2}


@pytest.mark.parametrize(
    ("faults", "lists"), [([], [2, 2, 2, 2]), ([Fault("unordered", "GET")], [2, 3, 2, 2])]
)
def test_log_is_listed_from_its_last_keys_on(
    s3: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch, faults: list[Fault], lists: list[int]
) -> None:
    """A store that ignores where a list begins is listed whole from then on."""
    monkeypatch.setattr(object_listing, "PAGE_KEYS", 2)
    monkeypatch.setattr(object_listing, "KNOWN_KEYS", 2)
    log = open_writer(f"{bucket}/topics")
    ends = LogEnds(f"{bucket}/topics", "flights")
    list_counts = []
    for time in range(5):
        log.append(rows(time))
    with s3.spoil(*faults):
        for time in range(4):
            s3.counts.clear()
            assert ends().ends == {0: 5 + time}
            list_counts.append(s3.counts["LIST"])
            log.append(rows(time))

    assert list_counts == lists


def test_archive_of_kafka_connect_is_read(bucket: str) -> None:
    """Keys and headers are separate files, and compaction left gaps."""
    directory = "topics/flights/partition=0/"
    table = pa.table({"time": [1, 2, 3], "name": ["a", "b", "c"]})
    for start in (0, 7, 20):
        put(bucket, f"{directory}flights+0+{start:010}.snappy.parquet", table)
        put(bucket, f"{directory}flights+0+{start:010}.keys.avro", b"keys")
        put(bucket, f"{directory}flights+0+{start:010}.headers.avro", b"headers")

    (slices_found,) = list_files(f"{bucket}/topics").values()
    assert [(file_slice.start, file_slice.end) for file_slice in slices_found] == [
        (0, 3),
        (7, 10),
        (20, 23),
    ]
    assert LogEnds(f"{bucket}/topics", "flights")().ends == {0: 23}
    with pytest.raises(Rejected, match=r"not a file of stream|is a file of an archive"):
        open_writer(f"{bucket}/topics")


def test_empty_objects_are_named_and_markers_skipped(bucket: str) -> None:
    """A directory's marker is not a file of the log. An observer waits for a JSON file."""
    root = f"{bucket}/topics"
    directory = "topics/flights/partition=0"
    open_writer(root).append(rows(1))
    for marker in (f"{directory}_$folder$", "topics/flights/partition=1_$folder$"):
        put(bucket, marker, b"")
    assert LogEnds(root, "flights")().ends == {0: 1}
    put(bucket, f"{directory}/flights+0+0000000001.json", b"{}")
    with pytest.raises(ForeignFile, match=r"0000000001\.json: may have rows"):
        LogEnds(root, "flights")()
    put(bucket, f"{directory}/flights+0+0000000001.parquet", b"")
    with pytest.raises(Rejected, match=r"0000000001\.parquet is empty$"):
        LogEnds(root, "flights", ignore=["*.json"])()


def test_truncated_and_deleted_objects_are_named(bucket: str) -> None:
    root = f"{bucket}/topics"
    put(bucket, "topics/flights/partition=0/flights+0+0000000000.parquet", b"PAR1")
    with pytest.raises(UnreadableFile, match="not a whole Parquet file"):
        list_files(root)
    missing = f"{root}/flights/partition=0/flights+0+0000000009.parquet"
    gone_slice = Slice(missing, 0, 1, version=Version(1, '"e"'))
    with pytest.raises(UnreadableFile, match="was deleted after it was listed"):
        list(shape().read_events([gone_slice]))


def test_missing_bucket_and_credentials_are_named(
    s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error also names a server that does not answer, and repeats no secret."""
    with pytest.raises(Rejected, match="'none' does not exist at this endpoint"):
        LogEnds("s3://none/topics", "flights")()
    with pytest.raises(Rejected, match="must be s3://BUCKET/PATH") as refusal:
        LogEnds(f"s3://us:{SECRET}@none/topics", "flights")
    assert SECRET not in str(refusal.value)
    monkeypatch.setitem(REQUEST_TIMEOUTS, "timeout", REQUEST_TIMEOUTS["timeout"] / 300)
    objects.open_bucket.cache_clear()
    with s3.spoil(Fault("slow down", "GET")), pytest.raises(Unreachable, match="503") as failure:
        LogEnds("s3://none/topics", "flights")()
    assert SECRET not in str(failure.value)


def test_plans_and_pickles_have_no_secret(bucket: str) -> None:
    """Neither the offsets nor the printed values have one."""
    root = f"{bucket}/topics"
    log = open_writer(root)
    log.append(rows(1))
    query = LogQuery(root, "flights", "http://127.0.0.1:1", "time")
    work = tuple(find_slices(list_files(root)[0], 0, None, 0, NO_FORMS))
    task = LogTask(work, ALL_TIMES)
    shown_values = [query, query.beginning, task, parse_root(root), store_of(parse_root(root)), log]
    pickles = [pickle.dumps(value) for value in (query, query.beginning, task, parse_root(root))]

    assert query.beginning.root == root
    assert SECRET not in "".join(map(repr, shown_values))
    assert not any(SECRET.encode() in pickled_value for pickled_value in pickles)
