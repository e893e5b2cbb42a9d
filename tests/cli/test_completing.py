"""`noted-time complete-to`: one time for a shell."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from noted_time.values import floor_time
from tests.cli.conftest import Commands, Console
from tests.support.odd_controller import odd_controller
from tools.trials.calls import HOUR_MS, TEN
from tools.trials.waiting import eventually


def test_changes_before_the_kept_reports_are_not_known() -> None:
    """It keeps reports for 90 days; while it has forgotten none, any moment may be asked about."""
    answer = {"windows": [], "has_more": False, "next": None, "changes_are_known": False}
    answer |= {"stream_id": "a", "logs": [], "writers_without_least": []}
    with odd_controller({"/windows": answer}) as url:
        done = Commands(url)("changed-since", "s", "2020-01-01T00:00Z")

    assert done.status == 3
    assert done.err == (
        "noted-time: the ledger does not reach back so far, the controller's clock was set near "
        "TIME, or the controller's clock is before TIME: other windows may have changed, too. Load "
        "all windows again, and ask from now on\n"
    )


def test_older_controller_does_not_say_when_it_looked(tmp_path: Path) -> None:
    """A loop asks with the same TIME again, and misses nothing."""
    answer = {"windows": [], "has_more": False, "next": None, "changes_are_known": True}
    answer |= {"stream_id": "a", "logs": [], "writers_without_least": []}
    file = tmp_path / "looked-at.txt"
    with odd_controller({"/windows": answer}) as url:
        done = Commands(url)("changed-since", "s", "2020-01-01T00:00Z", "--looked-at", file)

    assert (done.status, file.read_text()) == (0, "2020-01-01T00:00Z\n")
    assert done.err == (
        f"noted-time: it is not known when the controller looked, so {file} has the same TIME\n"
    )


def test_page_loop_continues_after_a_reload(run: Console, stream: str, tmp_path: Path) -> None:
    """Nothing is loaded again for a writer that reports no least time."""
    run.note(stream, shop=TEN)
    run("note", stream, "lima", TEN - HOUR_MS, "--join")
    page = Path("docs/guides/schedulers.md").read_text("utf-8")
    loop = re.search(r"^since=.*?(?=^```)", page, re.DOTALL | re.MULTILINE)
    assert loop is not None
    script = f"""
        noted-time() {{ {sys.executable} -m noted_time_cli "$@"; }}
        load_all() {{ echo everything; }}
        {loop[0].replace("orders", stream)}
    """
    environment = os.environ | {"NOTED_TIME_URL": run.served.url}

    def repair() -> str:
        words = ["bash", "-c", script]
        return subprocess.check_output(words, cwd=tmp_path, env=environment, text=True)

    first = repair()
    eventually(repair, "")

    assert first == "everything\n"


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)]
)
def test_hours_of_a_day_lie_between_its_midnights(day: str, hours: int) -> None:
    """Two of the days have a change of the clock."""
    berlin = ZoneInfo("Europe/Berlin")
    midnight = datetime.fromisoformat(day).replace(tzinfo=berlin).astimezone(UTC)
    begins = [midnight + timedelta(hours=n) for n in range(hours + 1)]
    times = [int(each.timestamp() * 1000) for each in begins]
    found = [floor_time(time + 1, 24 * HOUR_MS, berlin) for time in times]
    by_hour = [floor_time(time + 1, HOUR_MS, berlin) for time in times]

    assert (found, by_hour) == ([times[0]] * hours + [times[hours]], times)
