"""Two controllers whose database connection is a pooler's."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from time import monotonic

import httpx
import pytest

from controller.store.postgres import PostgresReading, create_postgres_engine
from tests.replicas.replica_processes import find_owned_name, wait_until_shared
from tests.support.pooler import Pooler
from tests.support.processes import ServeProcess, run_command
from tools.trials.calls import HTTP
from tools.trials.postgres import PASSWORD
from tools.trials.waiting import PATIENCE_S

pytestmark = pytest.mark.acceptance

SENTENCE = (
    "noted-time: a pooler gives the session to others: use session mode, or connect to PostgreSQL "
    "itself"
)


@pytest.fixture(params=[True, False], ids=["knows statements", "knows no statements"])
def pooler(request: pytest.FixtureRequest, url: str) -> Iterator[Pooler]:
    """A pooler in session mode, which may change to transaction mode."""
    with Pooler(url, "session", knows_statements=request.param) as pooler:
        yield pooler


@pytest.fixture
def replicas(pooler: Pooler, tmp_path: Path) -> Iterator[list[ServeProcess]]:
    """Two replicas, which share all buckets."""
    with ExitStack() as stack:
        a, b = start_two(stack, tmp_path, pooler)
        wait_until_shared(a.ready(), b.ready())
        yield [a, b]


def start_two(stack: ExitStack, directory: Path, pooler: Pooler) -> list[ServeProcess]:
    """Start two replicas, which end with the stack."""
    replicas = []
    for _ in range(2):
        replica = ServeProcess(directory, "--database", pooler.url)
        replicas.append(stack.enter_context(replica))
    return replicas


def accepts_note(url: str, stream: str, time: int) -> bool:
    """Return whether the replica accepts a note, which it forwards if it is not the owner."""
    note = {"writer": "w", "time": time, "position": {"0": time}}
    try:
        answer = HTTP.post(f"{url}/v1/streams/{stream}/notes", json={"notes": [note]})
    except httpx.TransportError:  # it has ended
        return False
    return answer.status_code == 200


def wait_for_ends(replicas: list[ServeProcess]) -> list[tuple[int, str]]:
    """Return the status and the last line of each replica."""
    statuses = [replica.process.wait(PATIENCE_S) for replica in replicas]
    lines = [replica.text().splitlines()[-1] for replica in replicas]
    return list(zip(statuses, lines, strict=True))


def test_pooler_in_session_mode_is_as_good_as_none(
    pooler: Pooler, replicas: list[ServeProcess]
) -> None:
    streams = [find_owned_name(replica) for replica in replicas]
    for stream in streams:
        replicas[0].create(stream)

    assert pooler.mode == "session"
    for replica in replicas:
        for stream in streams:
            assert accepts_note(replica.url, stream, 5)


def test_check_of_database_names_a_pooler_in_transaction_mode(pooler: Pooler) -> None:
    """As `noted-time doctor` asks a controller that runs alone, and may keep its session."""
    with closing(PostgresReading(create_postgres_engine(pooler.url))) as reading:
        in_session_mode = reading.damage()
        pooler.mode = "transaction"
        in_transaction_mode = reading.damage()

    assert (in_session_mode, f"noted-time: {in_transaction_mode}") == (None, SENTENCE)


def test_controllers_end_once_others_get_their_sessions(
    pooler: Pooler, replicas: list[ServeProcess], tmp_path: Path
) -> None:
    """No bucket ever has two owners: of two notes, the earlier one is refused afterwards."""
    streams = [find_owned_name(replica) for replica in replicas]
    for each in streams:
        replicas[0].create(each)
    urls = [replica.url for replica in replicas]  # their last line is not of the log
    accepted_twice = []
    pooler.mode = "transaction"
    until = monotonic() + PATIENCE_S
    for time in count(10, step=2):
        assert monotonic() < until, "a controller still runs"
        first, second = urls if time % 4 else reversed(urls)
        for stream in streams:
            are_accepted = accepts_note(first, stream, time), accepts_note(second, stream, time - 1)
            if all(are_accepted):
                accepted_twice.append((stream, time))
        if accepted_twice or all(replica.process.poll() is not None for replica in replicas):
            break
    examination = run_command("doctor", "--url", urls[0], cwd=tmp_path)

    assert (accepted_twice, wait_for_ends(replicas)) == ([], [(1, SENTENCE)] * 2)
    assert examination.returncode == 1
    assert PASSWORD not in "".join(replica.text() for replica in replicas)


@pytest.mark.parametrize("knows_statements", [True, False])
def test_controllers_end_at_start_in_transaction_mode(
    url: str, tmp_path: Path, *, knows_statements: bool
) -> None:
    """The session that renews is the one that commits, or a new session has a token."""
    with Pooler(url, "transaction", knows_statements=knows_statements) as pooler, ExitStack() as on:
        replicas = start_two(on, tmp_path, pooler)
        ends = wait_for_ends(replicas)

    assert ends == [(1, SENTENCE)] * 2
    for replica in replicas:
        assert "Traceback" not in replica.text()
