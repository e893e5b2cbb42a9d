"""`noted-time complete-to`: one time for a shell."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from noted_time.client import Json
from noted_time.values import floor_time, parse_time
from tests.cli.conftest import Commands, Console, Result
from tests.support.odd_controller import odd_controller
from tests.support.zone_data import WITHOUT_PACKAGE, run_python, write_zones
from tools.trials.calls import HOUR_MS, TEN
from tools.trials.waiting import eventually


def test_changes_before_the_kept_reports_are_not_known() -> None:
    """It keeps reports for 90 days; while it has forgotten none, any moment may be asked about."""
    answer = {"windows": [], "has_more": False, "next": None, "changes_are_known": False}
    answer |= {"stream_id": "a", "logs": [], "writers_without_least": []}
    with odd_controller({"/windows": answer}) as url:
        result = Commands(url)("changed-since", "s", "2020-01-01T00:00Z")

    assert result.status == 3
    assert result.err == (
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
        result = Commands(url)("changed-since", "s", "2020-01-01T00:00Z", "--looked-at", file)

    assert (result.status, file.read_text()) == (0, "2020-01-01T00:00Z\n")
    assert result.err == (
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
    times = [int(begin.timestamp() * 1000) for begin in begins]
    floors = [floor_time(time + 1, 24 * HOUR_MS, berlin) for time in times]
    by_hour = [floor_time(time + 1, HOUR_MS, berlin) for time in times]

    assert (floors, by_hour) == ([times[0]] * hours + [times[hours]], times)


VANCOUVER = ("--zone", "America/Vancouver")
MIDNIGHT = parse_time("2026-11-20T00:00-07:00")


def run_with_old_zones(url: str, zones: Path, *words: str) -> Result:
    """Run a command in a process with older zone data only, where Vancouver still has winter."""
    code = (
        f"{WITHOUT_PACKAGE}from noted_time_cli.__main__ import main; "
        f"sys.argv = ['noted-time', *{words!r}]; main()"
    )
    process = run_python(code, write_zones(zones), NOTED_TIME_URL=url)
    return Result(process.returncode, process.stdout, process.stderr)


def test_controller_shows_the_days_that_it_rounds(
    run: Console, stream: str, tmp_path: Path
) -> None:
    """The client's zone data are of an older release. By them, the day would begin at 23:00."""
    run.note(stream, vancouver=MIDNIGHT - 24 * HOUR_MS)
    run.note(stream, vancouver=MIDNIGHT)
    run("note", stream, "vancouver", MIDNIGHT, "--late", 1, "--least", MIDNIGHT - HOUR_MS)

    def ask(*words: str) -> list[str]:
        return run_with_old_zones(run.served.url, tmp_path, *words, *VANCOUVER).out.splitlines()

    changes = ask("changed-since", stream, "2026-11-01T00:00Z", "--size", "1d")
    days = ask("windows", stream, "--window", "1d")
    assert ask("complete-to", stream, "--floor", "1d") == ["2026-11-20T00:00:00-07:00"]
    assert [line.partition(" ")[0] for line in days] == ["2026-11-19", "2026-11-20"]
    assert changes[1].split()[:2] == ["2026-11-19T00:00:00-07:00", "2026-11-20T00:00:00-07:00"]


def forget_shown_times(answer: Json) -> Json:
    """Return an answer as an older controller gives it."""
    answer = {name: value for name, value in answer.items() if name != "complete_to_shown"}
    if "windows" in answer:
        windows = [dict(window) for window in answer["windows"]]
        for window in windows:
            del window["start_shown"], window["end_shown"]
        answer["windows"] = windows
    return answer


def test_times_of_an_older_controller_are_in_utc(run: Console, stream: str) -> None:
    """It rounds as its zone data say, which the client does not know; that is said once."""
    run.note(stream, vancouver=MIDNIGHT - 48 * HOUR_MS)
    run.note(stream, vancouver=MIDNIGHT)
    windows = ("windows", stream, "--window", "1d", *VANCOUVER)
    complete_to = ("complete-to", stream, "--floor", "1d", *VANCOUVER)
    answers = {
        f"/{end}": forget_shown_times(run(*words, "--json").json)
        for end, words in (("windows", windows), ("completeness", complete_to))
    }
    with odd_controller(answers) as url:
        time = Commands(url)(*complete_to)
        days = Commands(url)(*windows)

    warning = (
        "noted-time: the controller is of an older version, and shows no times in "
        "America/Vancouver: they are in UTC\n"
    )
    assert (time.out, time.err.count(warning)) == ("2026-11-20T07:00:00Z\n", 1)
    assert [line.partition(" ")[0] for line in days.out.splitlines()] == [
        "2026-11-18T07:00:00Z",
        "2026-11-19T07:00:00Z",
        "2026-11-20T07:00:00Z",
    ]
    assert days.err == warning
