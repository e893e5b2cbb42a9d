"""`noted-time note`: a shell script as a writer."""

import pytest

from tests.cli.conftest import Commands, Console
from tests.support.calls import HOUR_MS, TEN

AT_TEN = "2013-01-01T10:00Z"


def test_a_script_joins_and_notes_its_time_and_position(run: Console, stream: str) -> None:
    """The mark that follows has both; the time is rounded down, to claim no more than was said."""
    first = run("note", stream, "shell", "--join", "--timeout", "2h")
    run("note", stream, "shell", "2013-01-01T10:00:00.0009Z", "--position", "3=120")
    again = run("note", stream, "shell", AT_TEN, "--position", "3=120", "--json")
    mark = run.served.get(f"{stream}/cut", complete_to=TEN)

    assert first.err == f"shell joined: {stream} waits for it, for 2h of silence at most.\n"
    assert (mark["lower"], mark["cut"]) == (TEN, {"3": 120})
    assert (again.status, again.json) == (0, {"status": "accepted", "lower": TEN})


def test_it_leaves_for_a_while_or_for_good(run: Commands, stream: str) -> None:
    """As its state."""
    run("note", stream, "shell", AT_TEN, "--join")
    idle = run("note", stream, "shell", "--state", "idle")
    finished = run("note", stream, "shell", "--state", "finished")

    at = f"{stream} is complete to 2013-01-01T10:00:00Z."
    assert idle.err == f"shell is idle: {stream} does not wait for it. {at}\n"
    assert finished.err == f"shell is finished: {stream} does not wait for it. {at}\n"


def test_a_writer_that_the_stream_does_not_know_joins_and_leaves(run: Console, stream: str) -> None:
    """It never came, or the stream has forgotten it. Then it vouches for all times."""
    run("note", stream, "shell", AT_TEN, "--join")
    unknown = run("note", stream, "lima", "--state", "finished")
    joined = run("note", stream, "lima", "--join", "--state", "finished", "--json")
    run("note", stream, "shell", "2013-01-01T10:00:01Z")
    waited = run("wait", stream, AT_TEN, "--require", "lima", "--timeout", "10s")

    assert (unknown.status, "A new writer needs --join" in unknown.err) == (1, True)
    assert (joined.status, joined.json) == (0, {"status": "accepted", "lower": TEN})
    assert (run.served.writers(stream)["lima"]["state"], waited.status) == ("finished", 0)


def test_a_mistyped_name_holds_nothing_back(run: Console, stream: str) -> None:
    """A name that is nearly the same is asked for, of the stream and of the writer."""
    run("note", stream, "berlin", AT_TEN, "--join")
    of_writer = run("note", stream, "berln", AT_TEN)
    of_stream = run("note", stream[:-1], "berlin", AT_TEN)
    unheard = run("note", stream, "quito", AT_TEN)

    names = [row["writer"] for row in run.served.get(f"{stream}/writers")["writers"]]
    assert names == ["berlin"]
    assert of_writer.err == (
        "noted-time: there is no writer 'berln': did you mean 'berlin'? A new writer needs --join\n"
    )
    assert f"there is no stream {stream[:-1]!r}: did you mean" in of_stream.err
    assert repr(stream) in of_stream.err
    assert unheard.err == (
        "noted-time: there is no writer 'quito': `noted-time writers STREAM` lists them. "
        "A new writer needs --join\n"
    )
    assert (of_writer.status, of_stream.status, unheard.status) == (1, 1, 1)


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ((), 2, "give a TIME, or --join, or --late, or --state idle or"),
        (("2013-01-01T09:00Z",), 1, "it noted 2013-01-01T10:00:00Z before, and a time may"),
        ((AT_TEN, "--position", "0=7"), 1, "it was at {0: 9} before, and a position may not"),
        ((AT_TEN, "--domain", "ship"), 1, "the stream declares default"),
        ((str(TEN // 1000),), 1, "it noted 1357034400, which is January 1970: are these sec"),
    ],
)
def test_what_is_refused_changes_nothing(
    run: Console, stream: str, words: tuple[str, ...], status: int, says: str
) -> None:
    """The sentence has the field, the value and what is possible."""
    run("note", stream, "shell", AT_TEN, "--position", "0=9", "--join")
    before = run.served.get(f"{stream}/writers")["writers"][0]["times"]
    refused = run("note", stream, "shell", *words)

    assert (refused.status, refused.out) == (status, "")
    assert says in " ".join(refused.err.replace("│", " ").split())
    assert run.served.get(f"{stream}/writers")["writers"][0]["times"] == before


def test_the_watermark_that_went_on_is_said(run: Commands, stream: str) -> None:
    """What the writer notes next may be late, which a script would not see otherwise."""
    run("note", stream, "shell", AT_TEN, "--join")
    run("note", stream, "other", "2013-01-01T12:00Z", "--join")
    run("remove", stream, "shell", "--yes")
    noted = run("note", stream, "shell", "2013-01-01T11:00Z")

    assert f"But {stream} advanced without it (removed by an operator at" in noted.err
    assert noted.err.endswith("its rows below 2013-01-01T12:00:00Z are late.\n")


def test_a_writer_that_comes_late_is_told(run: Console, stream: str) -> None:
    """On standard error, and readers are told that its rows may be late, in what range."""
    run("note", stream, "berlin", AT_TEN, "--join")
    joined = run("note", stream, "lima", "--join")
    late = run("note", stream, "lima", "2013-01-01T08:00Z")
    since = run("note", stream, "quito", AT_TEN, "--join", "--since", "2013-01-01T09:00Z")
    found = run.served.get(f"{stream}/cut", complete_to=TEN)["late"]

    assert joined.err.endswith("\nlima vouches from 2013-01-01T10:00:00Z on\n")
    told = f"late by 2h, {stream} advanced without it to 2013-01-01T10:00:00Z\n"
    assert late.err.endswith(f"\nlima noted 2013-01-01T08:00:00Z: {told}")
    assert (late.status, since.status) == (0, 0)
    shown = [(each["writer"], each["least"], each["rows"], each["unknown"]) for each in found]
    assert shown == [("lima", None, 0, True), ("quito", TEN - HOUR_MS, 0, True)]


def test_a_script_corrects_what_it_noted(run: Console, stream: str) -> None:
    """By the number of its late rows and their least time, which go together."""
    run("note", stream, "shell", AT_TEN, "--join")
    said = run("note", stream, "shell", "--late", "3", "--least", "2013-01-01T09:00Z")
    half = run("note", stream, "shell", "--late", "3")
    (found,) = run.served.get(f"{stream}/cut", complete_to=TEN)["late"]

    assert said.err.startswith("shell reported 3 rows from 2013-01-01T09:00:00Z on that came below")
    assert (found["rows"], found["least"], found["unknown"]) == (3, TEN - HOUR_MS, False)
    assert (half.status, "--late ROWS and --least TIME go together" in half.err) == (2, True)


def test_late_rows_of_one_day_change_that_day_alone(run: Commands, stream: str) -> None:
    """Their largest time bounds the windows; without --late it has no meaning."""
    run("note", stream, "shell", AT_TEN, "--join")
    most = ("--most", "2013-01-01T06:30Z")
    run("note", stream, "shell", "--late", "3", "--least", "2013-01-01T06:00Z", *most)
    found, alone = run("changed-since", stream, "0"), run("note", stream, "shell", AT_TEN, *most)

    line = ["2013-01-01T06:00:00Z", "2013-01-01T07:00:00Z", "3", "shell"]
    assert found.table[1:] == [line]
    assert (alone.status, "--most TIME needs --late ROWS" in alone.err) == (2, True)


def test_late_rows_of_an_unknown_number_are_not_shown_as_none(run: Commands, stream: str) -> None:
    """A script that notes below the watermark may have written any number."""
    run("note", stream, "shell", AT_TEN, "--join")
    run("note", stream, "late", AT_TEN, "--join", "--since", "2013-01-01T09:00Z")

    assert run("changed-since", stream, "0").table[1][2:] == ["0 and more", "late"]


def test_a_writer_with_an_invalid_name_is_refused_by_that_name(stream: str) -> None:
    """Before the controller is asked, and also with --join."""
    noted = Commands("http://127.0.0.1:9")("note", stream, "l ma", AT_TEN, "--join")

    assert (noted.status, noted.out) == (1, "")
    assert noted.err.startswith("noted-time: writer 'l ma' is not 1 to 249 characters of ")
