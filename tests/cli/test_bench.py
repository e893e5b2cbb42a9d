"""`noted-time bench`: what it measures of a real controller, and what it leaves there."""

import pytest

from noted_time_cli.bench import measuring
from noted_time_cli.bench.load import LoadResult
from noted_time_cli.bench.measuring import BASE_MS, Fleet
from tests.cli.conftest import Commands
from tests.support.served import Served


def bench_streams(run: Commands) -> list[str]:
    """Return the streams of benches that are there."""
    streams = run("stream", "list", "--json").json["streams"]
    return [row["name"] for row in streams if row["name"].startswith("bench-")]


def test_it_prints_rates_and_latencies_and_leaves_nothing(run: Commands) -> None:
    """Of notes, of marks, and of a server that does nothing."""
    found = run("bench", "--writers", "20", "--for", "2s", "--json")

    rates = [found.json[name] for name in ("notes", "marks", "bare_server")]
    assert (found.status, found.json["writers"], found.json["connections"]) == (0, 20, 20)
    assert all(0 < rate["p50_ms"] <= rate["p99_ms"] and rate["per_second"] > 0 for rate in rates)
    assert bench_streams(run) == []


def test_it_prints_a_table_without_marks_that_did_not_come(run: Commands) -> None:
    """No time for a round of all writers, so none was seen."""
    found = run("bench", "--writers", "5000", "--connections", "1", "--for", "100ms")

    assert [line[0].split(",")[0] for line in found.table[1:]] == ["notes", "marks", "bare server"]
    assert found.table[2][1:] == ["-", "-", "-"]
    assert found.err.startswith("5,000 writers note over 1 connection for 100ms, in the stream ")


@pytest.mark.parametrize("ends", [ConnectionError("the server closed the connection"), LoadResult])
def test_a_controller_that_fails_is_named_and_the_stream_is_deleted(
    run: Commands, served: Served, monkeypatch: pytest.MonkeyPatch, ends: OSError | type
) -> None:
    """Whether it closed the connections, or refused notes; even if the stream is gone by then."""

    def drive(*_: object) -> LoadResult:
        if isinstance(ends, OSError):
            run("stream", "delete", *bench_streams(run), "--yes")
            raise ends
        answered = LoadResult(seconds=1.0, accepted=1)
        answered.latencies.extend((5, 7))
        return answered

    monkeypatch.setattr(measuring, "drive", drive)
    failed = run("bench", "--for", "1s")

    assert (failed.status, bench_streams(run)) == (1, [])
    closed = f"{served.url} closed a connection under load: the server closed the connection"
    says = closed if isinstance(ends, OSError) else "1 of 2 notes were not accepted"
    assert failed.err.splitlines()[-1] == f"noted-time: {says}"


def test_an_encrypted_controller_is_measured_beside_it(run: Commands) -> None:
    """What it says is what to do."""
    refused = run("bench", "https://127.0.0.1:7464")

    assert refused.status == 1
    assert refused.err == (
        "noted-time: https://127.0.0.1:7464 is encrypted: run bench beside the controller, with "
        "its http:// URL\n"
    )


def test_a_round_counts_from_the_last_connection_that_ends_it() -> None:
    """Its mark cannot be there before that."""
    fleet = Fleet("s", "", "", 3)
    first, second = fleet.scripts(2, lasting_s=60)
    next(first), next(first)
    early = fleet.noted_ns[1]
    note = next(second)

    assert fleet.noted_ns[1] > early
    assert note.endswith(b'[{"writer":"w1","time":%d,"position":{"1":1}}]}' % (BASE_MS + 1))
