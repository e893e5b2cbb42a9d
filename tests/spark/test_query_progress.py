"""How far a query has read, by its offset log; no Spark runs here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noted_time import Rejected
from spark_integration.beside.admitted import Admitted, MarksOffset
from spark_integration.checkpoint.query_progress import QueryProgress
from spark_integration.checkpoint.source_positions import KafkaTopic
from spark_integration.log.offset import LogOffset

FLIGHTS = KafkaTopic("flights")


def plan(checkpoint: Path, batch: int, *offsets: object, version: str = "v1") -> None:
    """Write what Spark writes before it runs a batch."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    lines = [version, "{}", *(o if o == "-" else json.dumps(o) for o in offsets)]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(map(str, lines)))


def marks(token: str) -> object:
    """Return an offset of the marks source of that token."""
    return MarksOffset({"flights": Admitted()}, token).to_json()


def test_the_position_is_that_of_the_newest_batch_planned(tmp_path: Path) -> None:
    """Read from where the search ended last time; older files may be gone."""
    progress = QueryProgress(str(tmp_path))
    seen = []
    for batch in range(9, 12):
        plan(tmp_path, batch, marks("a"), {"flights": {"0": batch, "1": 2 * batch}})
        seen.append(progress.position("a", FLIGHTS))

    assert seen == [{0: 9, 1: 18}, {0: 10, 1: 20}, {0: 11, 1: 22}]


def test_each_marks_source_has_the_events_behind_it(tmp_path: Path) -> None:
    """Two streams are joined, the second has no offset yet; then comes a log with its own marks.

    A source without marks may come before them all.
    """
    log = LogOffset("landings").to_json()
    plan(tmp_path, 0, {"trains": {}}, marks("a"), {"flights": {"0": 1}}, marks("b"), "-", log)
    progress = QueryProgress(f"file://{tmp_path}")

    assert [progress.position("a", FLIGHTS), progress.position("b", FLIGHTS)] == [{0: 1}, {}]


@pytest.mark.parametrize(
    ("offsets", "version", "says"),
    [
        ([], "v1", "was written by another query"),
        ([marks("z"), {"flights": {"0": 1}}], "v1", "was written by another query"),
        ([marks("a"), {"landings": {"0": 1}}], "v1", r"pass position=KafkaTopic\('landings'\)"),
        ([marks("a"), {"flights": {"0": 1}, "landings": {}}], "v1", "topics 'flights', 'landings'"),
        ([marks("a"), 7], "v1", "offset 7 is not one of Kafka topics"),
        (
            [marks("a"), {"flights": {"0": 1}}, {"flights": {}}],
            "v1",
            "cover one source, but 2 follow them",
        ),
        ([marks("a"), {"flights": {"0": 1}}, "-"], "v1", "cover one source, but 2 follow them"),
        ([marks("a")], "v1", "cover one source, but 0 follow them"),
        ([marks("a"), {"flights": {"0": 1}}], "v7", "is 'v7', not 'v1'"),
    ],
)
def test_a_log_without_information_is_refused(
    tmp_path: Path, offsets: list[object], version: str, says: str
) -> None:
    """Time would silently stand still for ever."""
    plan(tmp_path, 0, *offsets, version=version)

    with pytest.raises(Rejected, match=says):
        QueryProgress(str(tmp_path)).position("a", FLIGHTS)


def test_a_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    """It is not the checkpoint of a query that has planned a batch."""
    with pytest.raises(Rejected, match="has no batch yet"):
        QueryProgress(str(tmp_path / "nowhere")).position("a", FLIGHTS)
