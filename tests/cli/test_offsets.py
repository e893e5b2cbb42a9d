"""`complete-to` and `wait` for what Spark's checkpoint has read."""

from pathlib import Path

import pytest

from tests.cli.conftest import Commands
from tests.support.calls import TEN
from tests.support.offset_log import plan
from tests.support.served import Served


@pytest.fixture
def stream(served: Served) -> str:
    """Return a stream with two marks, at 10:00 and a minute later."""
    return served.two_minutes()


def checkpoint(directory: Path, offsets: dict[str, object], *, watermark: int | None = None) -> str:
    """Write what Spark keeps of a query with one committed batch and one that runs.

    With a watermark it keeps state.
    """
    metadata = {"batchWatermarkMs": watermark or 0, "conf": {}}
    for number, ends in enumerate([offsets, {"flights": {"0": 99, "1": 99}}]):
        plan(directory, number, "-", ends, metadata=metadata)
    (directory / "commits").mkdir()
    (directory / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    if watermark is not None:
        (directory / "state" / "0").mkdir(parents=True)
    return str(directory)


def test_a_query_has_read_what_its_last_committed_batch_read(
    run: Commands, stream: str, tmp_path: Path
) -> None:
    """Not what the batch reads that runs; it need not be ours."""
    place = checkpoint(tmp_path, {"flights": {"0": 19, "1": 4}, "other": {"0": 1}})
    words = ("complete-to", stream, "--checkpoint", place)

    assert run(*words, "--topic", "flights")[:2] == (0, "2013-01-01T10:00:00Z\n")
    refused = run(*words)
    assert (refused.status, f"reads '{stream}': pass --topic with the topic" in refused.err) == (
        1,
        True,
    )


@pytest.mark.parametrize(("watermark", "status"), [(TEN + 30_000, 124), (TEN + 60_000, 0)])
def test_a_query_with_state_is_complete_to_its_watermark_at_most(
    run: Commands, stream: str, tmp_path: Path, watermark: int, status: int
) -> None:
    """What lies above waits in its state, and the answer says so."""
    place = checkpoint(tmp_path, {"flights": {"0": 20, "1": 4}}, watermark=watermark)
    words = (stream, "--checkpoint", place, "--topic", "flights")
    found = run("complete-to", *words, "--json")
    waited = run("wait", stream, str(TEN + 60_000), "--timeout", "0s", *words[1:])

    assert (found.json["complete_to"], waited.status) == (watermark, status)
    assert "the query keeps state: only rows below its watermark 2013-01-01T" in found.err
    assert "the query keeps state" in waited.out + waited.err


def test_a_query_without_a_committed_batch_or_a_watermark_says_nothing(
    run: Commands, stream: str, tmp_path: Path
) -> None:
    """Status 1, and why."""
    words = ("complete-to", stream, "--topic", "flights", "--checkpoint")
    empty = run(*words, str(tmp_path / "nowhere"))
    place = checkpoint(tmp_path / "query", {"flights": {"0": 20}}, watermark=0)
    without = run(*words, place)
    (tmp_path / "query" / "metadata").unlink()
    other = run(*words, place)

    assert [each.status for each in (empty, without, other)] == [1, 1, 1]
    assert "has no committed micro-batch of a query" in empty.err
    assert "keeps state, and has no watermark yet" in without.err
    assert f"{place} is not a checkpoint: it has no metadata file" in other.err
