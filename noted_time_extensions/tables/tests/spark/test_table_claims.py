"""Claims that a query writes into the commits of a Delta table, by deltalake."""

import json
from contextlib import suppress
from pathlib import Path

import deltalake
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from noted_time_extensions.files.tests.support.reads import Reads
from noted_time_extensions.tables import NotedTable, TableClaims, accept, complete_to, standing
from noted_time_extensions.tables.claim import Claim
from noted_time_extensions.tables.spark.claims import check_covered, describe_read
from noted_time_extensions.tables.spark.table import check_column
from noted_time_extensions.tables.table_history import NoClaim
from spark_integration.checkpoint.query_progress import PlannedBatch
from tests.support.noted_stream import NotedStream
from tests.support.offset_log import plan
from tests.support.query_output import QueryOutput
from tools.trials.served import Served
from tools.trials.waiting import PATIENCE_S

KAFKA = {"flights": {"0": 5}}
NOTED = {"flights.noted": {"0": 2}}
MARKS: dict[str, object] = {"noted_streams": {"flights": {}}, "token": "t"}
SHIP, LAND = ({"facts": {"domain": domain}} for domain in ("ship", "land"))
SHIPPED = {**MARKS, "noted_streams": {"flights": SHIP}}
BOTH = {**MARKS, "noted_streams": {"flights": SHIP, "landings": LAND}}
LOG, SHIP_LOG, LAND_LOG = (
    {"noted_streams": {"flights": {"segments": {"0": 7}, **domain}}, "root": "/log"}
    for domain in ({}, SHIP, LAND)
)


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        ([NOTED, KAFKA], [True, True]),
        ([{**NOTED, **KAFKA}], [True]),
        ([KAFKA], [False]),
        ([MARKS, KAFKA, KAFKA], [True, False]),
        ([LOG, {"logOffset": 3}], [True, False]),
        ([MARKS, {"logOffset": 3}], [True]),
        ([None, KAFKA], [True, False]),
    ],
)
def test_sources_covered_by_marks_are_recognised(offsets: list[object], found: list[bool]) -> None:
    """Our sources are covered, a source after the marks, and a topic with a noted topic."""
    assert list(check_covered(offsets)) == found


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        ((LOG,), ("flights", None, 7)),
        ((SHIP_LOG,), ("flights", "ship", 7)),
        ((MARKS, KAFKA), ("flights", None, 5)),
        ((SHIPPED, KAFKA), ("flights", "ship", 5)),
        ((NOTED, KAFKA), ("flights", None, 5)),
        ((SHIPPED, {"logOffset": 3}), ("flights", "ship", None)),
        ((KAFKA, {"landings": {"0": 9}}), ("flights,landings", None, None)),
        ((SHIPPED, KAFKA, {"landings": {"0": 9}}), ("flights,landings", None, None)),
        ((LAND_LOG, SHIPPED, KAFKA), ("flights,flights", "land,ship", None)),
        ((BOTH, {**KAFKA, "landings": {"0": 9}}), ("flights,landings", "ship,land", None)),
    ],
)
def test_claim_has_stream_domain_and_cut_of_its_query(
    offsets: tuple[object, ...], found: tuple[str, str | None, int | None]
) -> None:
    """The domains are known if all offsets name them, and the cut if there is one source."""
    source = describe_read(PlannedBatch("q", 7, 50, "min", offsets))

    assert (source["stream"], source["domain"], source["cut"].get("0")) == found


@pytest.mark.parametrize(("firsts", "found"), [((5, 8), 8), ((5, None), None)])
def test_first_mark_of_a_claim_is_known_if_each_is(
    firsts: tuple[int | None, ...], found: int | None
) -> None:
    logs = tuple(
        {"noted_streams": {"flights": {"facts": {"first_lower": first_lower}}}, "root": "/log"}
        for first_lower in firsts
    )

    assert describe_read(PlannedBatch("q", 7, 50, "min", logs))["first_lower"] == found


@pytest.mark.parametrize(
    ("domains", "offsets"),
    [
        (["ship"], (MARKS, KAFKA)),
        (["ship"], (NOTED, KAFKA)),
        (["default", "ship"], (SHIPPED, {"logOffset": 3})),
        (["default", "ship"], (SHIP_LOG,)),
    ],
)
def test_claim_names_missing_writers_of_each_source(
    served: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    domains: list[str],
    offsets: tuple[dict[str, object], ...],
) -> None:
    """The claim has the domain of its offsets, or the only domain of the stream."""
    monkeypatch.setattr("noted_time_extensions.tables.spark.claims.ASK_TIMEOUT_S", PATIENCE_S)
    served.create("shipped", domains=domains, max_time_ahead_ms=7)
    claim = claim_after_removal(served, tmp_path, offsets)

    vouched_counts = {"count": 1, "expected": 0, "expected_vouching": 0}
    about = claim.domain, claim.missing_writers, claim.vouched, claim.max_time_ahead_ms
    assert about == ("ship", ("lima",), vouched_counts, 7)
    served.ask("POST", "/streams/shipped/seal", {})
    claims = TableClaims(str(tmp_path), "flights", "time", controller=served.url, strict=True)
    assert claims.of(1).claim.max_time_ahead_ms is None
    assert Claim.from_json("flights", claim.to_json()) == claim


def test_claim_without_a_domain_asks_no_controller(
    served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says why."""
    served.create("shipped", domains=["default", "ship"])
    claim = claim_after_removal(served, tmp_path, (NOTED, KAFKA))

    assert (claim.domain, claim.missing_writers, claim.vouched) == (None, None, {})
    assert "the claim does not name its time domain" in caplog.text


def claim_after_removal(served: Served, checkpoint: Path, offsets: tuple[object, ...]) -> Claim:
    """Return a claim to 50 over a stream that lost a writer of domain `ship` at 40."""
    text = json.dumps(offsets).replace("flights", "shipped")
    notes = [{"writer": w, "time": t, "domain": "ship"} for w, t in (("lima", 40), ("oslo", 60))]
    served.post("shipped", *notes)
    served.ask("DELETE", "/streams/shipped/writers/lima")
    for batch in (0, 1):
        about = {"batchWatermarkMs": 50, "conf": {}}
        plan(checkpoint, batch, *json.loads(text), metadata=about)
    claims = TableClaims(str(checkpoint), "flights", "time", controller=served.url, strict=True)
    return claims.of(1).claim


@pytest.mark.parametrize("restarts", [False, True])
def test_skipped_failed_batch_ends_the_claim(
    spark: SparkSession, tmp_path: Path, *, restarts: bool
) -> None:
    """It does not count as a batch without rows, after a restart either.

    Batches without rows keep the claim.

    An accepted table has a claim again.
    """
    for batch in range(6):
        about = {"batchWatermarkMs": 10 * batch, "conf": {}}
        plan(tmp_path, batch, NOTED, {"flights": {"0": batch}}, metadata=about)
    url = f"delta:{tmp_path / 'table'}"
    claims = TableClaims(str(tmp_path), "flights", "time", strict=True)
    table = NotedTable(url, claims, claim_every="1h")
    rows = spark.createDataFrame([(40, "a")], "time LONG, name STRING")

    table(rows, 0)
    table(rows.limit(0), 1)
    table(rows, 2)
    kept_claim = standing(url)
    with suppress(Rejected):
        table(rows.drop("time"), 3)
    table = NotedTable(url, claims, claim_every="1h") if restarts else table
    table(rows, 4)
    after = standing(url)
    accept(url, "looked: Ada", at=deltalake.DeltaTable(tmp_path / "table").version())
    table(rows, 5)
    second_status = complete_to(url)

    assert not isinstance(kept_claim, NoClaim), kept_claim
    assert kept_claim.complete_to == 21
    assert isinstance(after, NoClaim), after
    assert "batch 3 is not in the table" in after.why
    assert second_status is not None
    assert second_status.complete_to == 51


class Table:
    """A table of a query of the flights. Each run writes all new rows."""

    def __init__(self, path: Path, read: Reads, flights: NotedStream, output: QueryOutput) -> None:
        self.path = str(path)
        self.url = f"delta:{self.path}"
        self.checkpoint = output.checkpoint
        self.read = read
        self.flights = flights
        self.output = output

    def claims(self) -> TableClaims:
        """Return the claims of a new driver of the query."""
        return TableClaims(str(self.checkpoint), "flights", "time")

    def run(self, *, strict: bool = False) -> None:
        """Write all that there is now."""
        self.output._take = NotedTable(self.url, self.claims())  # type: ignore[assignment, method-assign]
        self.output.catch_up(self.read(self.flights, batch_after_mark=True, strict=strict))

    @property
    def rows(self) -> list[str]:
        """The names of the rows in the table."""
        return sorted(
            deltalake.QueryBuilder()
            .register("t", self.open())
            .execute("select * from t")
            .read_all()["name"]
            .to_pylist()
        )

    def open(self) -> deltalake.DeltaTable:
        """Return the table as it is now."""
        return deltalake.DeltaTable(self.path)

    def last(self) -> Claim:
        """Return the last record of the query."""
        claim = standing(self.url)
        assert not isinstance(claim, NoClaim), claim
        return claim.claims["flights"]


@pytest.fixture
def table(read: Reads, flights: NotedStream, output: QueryOutput, tmp_path: Path) -> Table:
    """Return an empty table, and a stream with three rows. Two are below the only mark."""
    flights.begin_log().append(0, (1000, "a"), (2000, "b"))
    flights.append(1, (9500, "c"))
    flights.note(2001)
    return Table(tmp_path / "table", read, flights, output)


pytestmark = pytest.mark.spark


def test_claim_of_the_last_mark_is_written_by_the_end_of_a_run(table: Table) -> None:
    """The table has the rows of all batches, and the claim the position of the query.

    Under `strict`, Spark's watermark is a millisecond less, but the claim is the lower itself.
    """
    table.run(strict=True)

    last = table.last()
    assert table.rows == ["a", "b", "c"]
    assert (last.complete_to, last.batch, last.stream, last.domain, last.cut) == (
        2001,
        1,
        "flights",
        "default",
        {"0": 2, "1": 1},
    )


def test_rerun_batch_is_not_appended_again(table: Table) -> None:
    """The driver was killed between the commits of the table and of Spark."""
    table.run()
    table.output.forget_commit()
    table.flights.append(0, (3000, "d"))
    table.flights.note(3001)
    table.run()

    assert (table.rows, table.last().complete_to) == (["a", "b", "c", "d"], 3001)


def test_table_that_keeps_commits_under_a_week_is_warned_of(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning comes once in each run, and only if the table has the property."""
    table.run()
    before = caplog.text
    short = {"delta.logRetentionDuration": "interval 2 days"}
    table.open().alter.set_table_properties(short, raise_if_not_exists=False)
    table.run()

    assert "keeps its commits" not in before
    assert caplog.text.count("keeps its commits for 2 days") == 1


def test_checkpoint_of_another_query_is_refused(table: Table, tmp_path: Path) -> None:
    """Its watermark would be claimed for the rows of this query."""
    table.run()
    table.output.checkpoint = tmp_path / "another"

    with pytest.raises(Exception, match="belongs to query"):
        table.run()


def test_second_write_of_a_batch_without_parts_is_refused(table: Table) -> None:
    """Otherwise it would be skipped."""

    def twice(rows: DataFrame, batch_id: int) -> None:
        for even in (True, False):
            NotedTable(table.url, table.claims())(rows.where(F.lit(even)), batch_id)

    table.output._take = twice  # type: ignore[assignment, method-assign]
    with pytest.raises(Exception, match="give each write a part="):
        table.output.catch_up(table.read(table.flights, batch_after_mark=True))


@pytest.mark.parametrize(("claim_every", "versions"), [("0s", [0, 1, 2]), ("1h", [0, 0, 0])])
def test_batches_without_rows_are_committed_by_claim_every(
    table: Table, claim_every: str, versions: list[int]
) -> None:
    """The next commit has their claim."""
    table.output._take = NotedTable(table.url, table.claims(), claim_every=claim_every)  # type: ignore[assignment, method-assign]
    versions_found = []
    for time in (3001, 4001, 5001):
        table.output.catch_up(table.read(table.flights))
        versions_found.append(table.open().version())
        table.flights.note(time)

    assert versions_found == versions


def test_rows_without_the_column_of_the_claim_are_refused(
    read: Reads, flights: NotedStream
) -> None:
    """A name with dots is a nested field."""
    events = read(flights.begin_log())
    windows = events.groupBy(F.window("time", "1 second")).count()

    check_column(windows, "window.end")
    with pytest.raises(Rejected, match="time_of='departure' is not a column"):
        check_column(events, "departure")


def test_start_of_a_window_is_refused(tmp_path: Path) -> None:
    """A window's rows come when it ends."""
    with pytest.raises(Rejected, match="is the start of a window"):
        TableClaims(str(tmp_path), "flights", "window.start")
