"""Claims by queries of two domains, which have the status of the stream in the domain."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from demo.trials.served import Served
from noted_time.client import Json
from spark_integration import Ingestion, TableClaims
from spark_integration.checkpoint.query_progress import PlannedBatch
from spark_integration.checkpoint.source_positions import KafkaTopic
from spark_integration.log.options import Option
from spark_integration.marks_source.query import MarksQuery
from spark_integration.marks_source.topics import create_planner
from spark_integration.tables.claims import describe_read
from tests.cli.conftest import Commands
from tests.support.asking import ask
from tests.support.claimed import TEN, Orders
from tests.support.log_reading import build_query, open_reader
from tests.support.noted_stream import NotedStream
from tests.support.offset_log import plan, write_start

DOMAINS = ["default", "ship", "ingestion"]


def plan_log(stream: NotedStream, *options: Option, **asked: str) -> tuple[Json, ...]:
    """Return the offsets of the first batch of a query on the file log."""
    reader = open_reader(build_query(stream, *options, **asked))
    try:
        return (reader.latestOffset(reader.initialOffset(), ReadAllAvailable()),)
    finally:
        reader.stop()


def plan_topic(stream: NotedStream, domain: str | None, lag_ms: int = 0) -> tuple[Json, ...]:
    """Return the offsets of the first batch of a query on a topic, after its marks."""
    name, place = stream.name, str(stream.root)
    query = MarksQuery({name: KafkaTopic(name)}, stream.server.url, place, domain, lag_ms=lag_ms)
    with closing(create_planner(query, None, {})) as planner:
        planned = planner.plan(planner.beginning, ReadAllAvailable()).to_json()
    return planned, {name: {"0": 0}}


def test_offsets_of_all_sources_have_domain_lag_and_first_mark(
    controller: Served, tmp_path: Path
) -> None:
    """The offsets name the domain of a stream with only one.

    The lag is subtracted from the first mark.
    """
    stream = NotedStream(tmp_path, "flights", controller, *DOMAINS).begin_log()
    shipped = NotedStream(tmp_path, "shipped", controller, "ship").begin_log()
    for time, domain in enumerate(DOMAINS, start=10):
        controller.note("flights", time, {"0": 1}, domain=domain)
    offsets = [
        plan_log(stream, domain="ship"),
        plan_log(stream),
        plan_log(shipped),
        plan_log(stream, Ingestion(5), domain="ingestion"),
        plan_topic(stream, "ship"),
        plan_topic(shipped, None),
        plan_topic(stream, "ingestion", 5),
    ]

    read = [describe_read(PlannedBatch("q", 0, 1, "min", each)) for each in offsets]
    found = [(each["domain"], each["lag_ms"], each["first_lower"]) for each in read]
    ship, unmarked, ingestion = ("ship", 0, 11), ("ship", 0, None), ("ingestion", 5, 7)
    assert found == [ship, ("default", 0, 10), unmarked, ingestion, ship, unmarked, ingestion]


def plan_read(source: str, stream: NotedStream, domain: str) -> tuple[Json, ...]:
    return plan_topic(stream, domain) if source == "topic" else plan_log(stream, domain=domain)


WRITERS = ["lima", "oslo"]
PAIRS = st.tuples(st.sampled_from(WRITERS), st.sampled_from(DOMAINS[:2]))


@given(
    notes=st.lists(PAIRS, max_size=9),
    expected=st.sampled_from([[], WRITERS]),
    removed=st.sampled_from(["", "lima"]),
    domain=st.sampled_from(DOMAINS[:2]),
    source=st.sampled_from(["log", "topic"]),
)
@settings(max_examples=15)
def test_table_has_the_status_of_its_stream_in_the_domain(  # noqa: PLR0913, PLR0917 - what is drawn
    shared_controller: Served,
    notes: list[tuple[str, str]],
    expected: list[str],
    removed: str,
    domain: str,
    source: str,
) -> None:
    """The status is the same for each requirement, and before the first mark."""
    run, times = Commands(shared_controller.url), enumerate(notes, start=TEN)
    with TemporaryDirectory() as place:
        stream = NotedStream(Path(place, "log"), "flights", shared_controller, *DOMAINS[:2])
        stream.begin_log()
        initial = [{"writer": w, "domain": d, "time": TEN} for w in WRITERS for d in DOMAINS[:2]]
        later = [{"writer": w, "domain": d, "time": time} for time, (w, d) in times]
        shared_controller.call("PUT", "/flights", {"expected_writers": expected})
        shared_controller.post("flights", *initial, *later)
        if removed:
            shared_controller.ask("DELETE", f"/streams/flights/writers/{removed}")
        lower = shared_controller.lower("flights", domain)
        for batch in (0, 1):
            about = {"batchWatermarkMs": lower - 1, "conf": {}}
            plan(Path(place), batch, *plan_read(source, stream, domain), metadata=about)
        write_start(Path(place), "1", {"flights": {"0": 0}})
        orders = Orders(Path(place))
        orders.record(TableClaims(place, "orders", "time").of(1).claim)
        ways = ["", "all", "known", *WRITERS]
        asked = [(time, way) for time in (TEN - 1, lower) for way in ways]
        found = [ask(run, "wait", orders.url, time, require=way).status for time, way in asked]
        truth = [
            ask(run, "wait", "flights", time, require=way, domain=domain).status
            for time, way in asked
        ]

    assert found == truth


def test_checkpoint_with_state_is_judged_in_its_domain(controller: Served, tmp_path: Path) -> None:
    stream = NotedStream(tmp_path / "log", "flights", controller, *DOMAINS[:2])
    stream.append(0, (TEN, "a"))
    for domain in DOMAINS[:2]:
        controller.note("flights", TEN, {"0": 1}, domain=domain)
    place = tmp_path / "flights"
    plan(place, 0, *plan_log(stream, domain="ship"), metadata={"batchWatermarkMs": TEN})
    for name in ("state/0", "commits"):
        (place / name).mkdir(parents=True)
    (place / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs": 0}')

    result = ask(Commands(controller.url), "complete-to", str(place))
    assert (result.status, "name it (--domain ship" in result.err) == (1, True), result
