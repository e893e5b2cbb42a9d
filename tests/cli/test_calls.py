import re
import threading
from typing import Any

import httpx
import pytest

from noted_time_cli.client.caller import Caller
from reader_client.protocol.requirements import BEFORE_FIRST_MARK
from tests.cli.conftest import Commands, Console, note
from tests.support.calls import HOUR_MS, TEN
from tests.support.served import Served

OPEN_STREAM = (
    "noted-time: {0} expects no writers, so its first writer alone makes it complete, and "
    "missing writers are not detected: noted-time stream create {0} --expected-writer NAME …\n"
)


def test_a_stream_is_made_with_the_settings_that_are_given(run: Commands) -> None:
    """Durations are written as people do, and shown so."""
    options = ["--writer-timeout", "90m", "--mark-interval", "0s", "--max-time-ahead", "none"]
    options += ["--returning-writer", "exclude", "--domain", "order_time", "--domain", "ship_time"]
    made = run("stream", "create", "made", *options)
    shown = run("stream", "show", "made", "--json").json

    settings = dict(row for row in made.table if len(row) == 2)
    assert (made.status, made.err, settings["writer_timeout_ms"], settings["domains"]) == (
        0,
        f"Created stream made.\n{OPEN_STREAM.format('made')}",
        "1h 30m",
        "order_time, ship_time",
    )
    assert (
        shown["writer_timeout_ms"],
        shown["mark_interval_ms"],
        shown["max_time_ahead_ms"],
        shown["returning_writer"],
    ) == (5_400_000, 0, None, "exclude")


def test_changes_show_what_was_done_and_why(run: Console, stream: str) -> None:
    """By every command of operators."""
    run.note(stream, UA=5)
    run("stream", "create", stream, "--writer-timeout", "5s", "--comment", "it is fast")
    run("hold", stream, "UA", "--for", "1h", "--comment", "patience")
    run("hold", stream, "UA", "--release")
    removed = run("remove", stream, "UA", "--yes", "--comment", "its machine is gone")
    rows = run("changes", stream).table[1:]

    assert removed.status == 0
    assert [(row[0], *row[2:5], row[6]) for row in rows] == [
        ("5", "removed", "UA", "-", "its machine is gone"),
        ("4", "released", "UA", "-", "-"),
        ("3", "held", "UA", "for 1h", "patience"),
        ("2", "settings", "-", "writer_timeout_ms: 1m → 5s", "it is fast"),
        ("1", "created", "-", "-", "-"),
    ]


def test_a_writer_is_expected_in_addition(run: Commands) -> None:
    """Twice is as once, and a new stream expects it alone."""
    add = ("stream", "create", "seven", "--add-expected-writer")
    for name in ("lima", "rome"):
        run(*add, name)
    again = run(*add, "lima", "--json")

    assert (again.json["expected_writers"], again.err) == (["lima", "rome"], "")


def test_writers_that_are_added_at_once_are_all_expected(
    run: Console, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command writes the list after this one has read it."""
    run.served.call("PUT", f"/{stream}", {"expected_writers": ["lima"]})
    answer, others = Caller.answer, ["rome", "oslo"]

    def answer_later(self: Caller, method: str, *words: Any, **options: Any) -> Any:  # noqa: ANN401
        if method == "PUT" and others:
            run.served.call("PUT", f"/{stream}", {"expected_writers": ["lima", others.pop()]})
        return answer(self, method, *words, **options)

    monkeypatch.setattr(Caller, "answer", answer_later)
    added = run("stream", "create", stream, "--add-expected-writer", "paris", "--json")

    assert set(added.json["expected_writers"]) == {"lima", "rome", "oslo", "paris"}


def test_naming_one_more_writer_alone_warns_of_those_it_replaces(run: Commands) -> None:
    """A list that keeps all of them has no warning."""
    named = [("lima", "rome"), ("lima", "rome", "paris"), ("oslo",)]
    texts = [
        run("stream", "create", "six", *(f"--expected-writer={name}" for name in names)).err
        for names in named
    ]

    texts.append(run("stream", "create", "six", "--writer-timeout", "5s").err)

    warning = (
        "noted-time: six no longer expects lima, paris, rome, because --expected-writer replaces "
        "the list. To expect them again, use --add-expected-writer\n"
    )
    assert [text.partition("noted-time: ")[1:] for text in texts] == [
        ("", ""),
        ("", ""),
        warning.partition("noted-time: ")[1:],
        ("", ""),
    ]


def test_recreating_a_stream_reports_what_changed(run: Commands, stream: str) -> None:
    """And changes no setting that is not given."""
    again, once_more = (run("stream", "create", stream, "--writer-timeout", "5s") for _ in range(2))
    shown = run("stream", "show", stream, "--json").json

    said = [
        each.err.removeprefix(f"Stream {stream} already exists: ") for each in (again, once_more)
    ]
    changes = ("writer_timeout_ms is 5s, and was 1m", "nothing has changed")
    assert said == [f"{each}. Settings:\n{OPEN_STREAM.format(stream)}" for each in changes]
    assert (shown["writer_timeout_ms"], shown["mark_interval_ms"]) == (5000, 0)


def test_a_shorter_retention_that_drops_marks_needs_a_yes(run: Console, stream: str) -> None:
    """It says how many; one that drops none is not asked about."""
    for time in (TEN, TEN + 1, TEN + 2):
        run.note(stream, UA=time)
    longer = run("stream", "create", stream, "--mark-retention", "8d")
    refused = run("stream", "create", stream, "--mark-retention", "0s")
    kept = run("stream", "show", stream, "--json").json["mark_retention_ms"]
    agreed = run("stream", "create", stream, "--mark-retention", "0s", "--yes")
    shown = run("stream", "show", stream, "--json").json["mark_retention_ms"]

    assert (longer.status, refused.status, agreed.status) == (0, 2, 0)
    assert "2 marks of default would be dropped, for good." in refused.err
    assert (kept, shown) == (8 * 86_400_000, 0)


def test_streams_are_listed_with_their_last_marks(run: Console, stream: str) -> None:
    """A row for each domain; times are shown in ISO 8601."""
    run.note(stream, a=TEN)
    listed = run("stream", "list")

    rows = {row[0]: row[1:] for row in listed.table}
    mark = ["default", "1", "2013-01-01T10:00:00Z", "2013-01-01T10:00:00Z", "0:10"]
    assert (rows["stream"], rows[stream]) == (["domain", "mark", "lower", "upper", "cut"], mark)


def test_an_incomplete_list_says_so(run: Console) -> None:
    """Pages are put together up to the limit."""
    for name in ("listed-1", "listed-2", "listed-3"):
        run.served.create(name)
    listed = run("stream", "list", "--limit", "2")

    assert (len(listed.table), listed.err) == (3, "There are more than these 2: use --limit.\n")


def test_a_stream_is_deleted_after_yes_only(run: Console, stream: str) -> None:
    """Off a terminal it cannot ask, so `--yes` is needed; what it would remove is counted."""
    for time in (5, 6):
        run.note(stream, UA=time, DL=time)
    refused = run("stream", "delete", stream)
    deleted = run("stream", "delete", stream, "--yes")

    assert [(each.status, each.err) for each in (refused, deleted)] == [
        (
            2,
            (
                f"noted-time: Remove {stream} with 2 writers and 2 marks, for good? "
                "There is no terminal to ask on: add --yes\n"
            ),
        ),
        (0, f"Removed stream {stream}.\n"),
    ]


def test_a_log_with_the_same_offsets_is_taken_after_yes_only(run: Console, stream: str) -> None:
    """However its id is spelled."""
    run.served.post(stream, {"writer": "UA", "log": "l-N_h"})
    asked = run("stream", "log", stream, "a+b/c")
    before = run.served.get(stream)["logs"]
    taken = run("stream", "log", stream, "a+b/c", "--yes", "--comment", "linked")
    change = run.served.get(f"{stream}/changes")["changes"][0]

    assert (asked.status, before) == (2, ["l-N_h"])
    assert "add --yes" in asked.err
    assert (taken.status, taken.err) == (0, f"{stream} takes positions of log a-b_c.\n")
    assert (run.served.get(stream)["logs"], change["comment"]) == (["l-N_h", "a-b_c"], "linked")


def test_explain_names_the_holders_and_what_would_be(run: Console, stream: str) -> None:
    """First in words, then each writer that is waited for."""
    run.note(stream, a=TEN, b=TEN + 3_900_000)
    explained = run("explain", stream)

    *sentences, columns, held = explained.table
    assert (sentences[0], sentences[-1]) == (
        [f"{stream} holds at 2013-01-01T10:00:00Z: it waits for 1 writer."],
        ["No writer is excluded."],
    )
    assert (columns[:2], columns[4:]) == (["writer", "time"], ["lower without it"])
    assert (held[:2], held[4:]) == (["a", "2013-01-01T10:00:00Z"], ["2013-01-01T11:05:00Z"])


def test_writers_are_listed_the_holder_first(run: Console, stream: str) -> None:
    """With state, times and position."""
    run.note(stream, a=TEN, b=TEN + 60_000)
    listed = run("writers", stream)

    shown = [row[:4] for row in listed.table]
    assert shown == [
        ["writer", "state", "times", "position"],
        ["a", "live", "default=2013-01-01T10:00:00Z", "0:10"],
        ["b", "live", "default=2013-01-01T10:01:00Z", "0:10"],
    ]


def test_json_is_the_controllers_answer(run: Console, stream: str) -> None:
    """In one line, for scripts."""
    run.note(stream, a=TEN)
    explained = run("explain", stream, "--json")
    answer = run.served.call("GET", f"/{stream}/explain")

    changing = ("now", "waiting_for", "sentences")  # they say for how long
    found = {name: value for name, value in explained.json.items() if name not in changing}
    expected = {name: value for name, value in answer.items() if name not in changing}
    assert (found, explained.out.count("\n")) == (expected, 1)


@pytest.mark.parametrize("time", ["2013-01-01T10:00Z", "2013-01-01T11:00+01:00", str(TEN)])
def test_wait_ends_well_when_the_stream_is_complete(run: Console, stream: str, time: str) -> None:
    """Status 0, and the cut to read up to."""
    run.note(stream, a=TEN)
    waited = run("wait", stream, time, "--timeout", "30s")

    said = (
        f"{stream} is complete to 2013-01-01T10:00:00Z, by a (1 writer, none expected): "
        "mark 1, cut 0:10\n"
    )
    assert (waited.status, waited.out) == (0, said)


def test_wait_ends_with_124_when_time_is_up(run: Console, stream: str) -> None:
    """As timeout(1) does; the sentence gives the stream's time and the writers it waits for."""
    run.note(stream, a=TEN - 1000)
    waited = run("wait", stream, str(TEN), "--timeout", "0s")

    says = (
        f"noted-time: {stream} is not known to be complete to 2013-01-01T10:00:00Z: "
        "its lower is 2013-01-01T09:59:59Z, and it waits for a\n"
    )
    assert (waited.status, waited.out, waited.err) == (124, "", says)


@pytest.mark.parametrize("command", [("wait", str(TEN)), ("watch",), ("complete-to",)])
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("nowhere",), "there is no stream 'nowhere'"),
        (("a b",), "stream 'a b' is not 1 to 249 characters"),
        (("{stream}", "--domain", "other"), "the stream has no domain 'other'"),
    ],
)
def test_a_question_that_is_refused_ends_with_1_at_once(
    run: Console, stream: str, command: tuple[str, ...], asked: tuple[str, ...], says: str
) -> None:
    """More time would not help; nothing is printed."""
    run.note(stream, a=TEN)
    (name, *time), (of, *options) = command, asked
    refused = run(name, of.format(stream=stream), *time, *options)

    assert (refused.status, refused.out, says in refused.err) == (1, "", True)


def test_a_time_in_seconds_is_doubted(run: Console, stream: str) -> None:
    """It would be complete at once."""
    run.note(stream, a=TEN)
    waited = run("wait", stream, str(TEN // 1000))

    says = f"is {TEN // 1000} in seconds? The times of the stream"
    assert (waited.status, says in waited.err) == (1, True)


def test_wait_outlives_a_controller_that_is_away(run: Console) -> None:
    """It reports that, keeps trying, and learns the mark when the controller is back."""
    run.served.create("outlived")
    run.note("outlived", a=TEN)
    run.served.stop()
    back = threading.Timer(0.3, run.served.start)
    back.start()
    waited = run("wait", "outlived", str(TEN), "--timeout", "30s")
    back.join()

    is_said = "no answer from" in waited.err and waited.err.endswith("; trying again\n")
    assert (waited.status, is_said) == (0, True)


def test_wait_for_a_controller_that_never_comes_gives_the_true_reason(run: Commands) -> None:
    """Not that the stream is incomplete, which is not known."""
    url = "http://127.0.0.1:9"
    waited = run("wait", "s", "5", "--timeout", "0s", "--url", url)

    assert (waited.status, f"to 5: no answer from {url}" in waited.err) == (69, True)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("127.0.0.1:7464", "has no scheme: use http://127.0.0.1:7464"),
        ("http://127.0.0.1:7464/v1", "contains the path of the API: use http://127.0.0.1:7464"),
        ("http://localhost:port", "'http://localhost:port' is not a URL"),
        ("ftp://localhost:7464", "has another scheme: use http://localhost:7464"),
    ],
)
def test_a_url_that_leads_nowhere_is_explained(run: Commands, url: str, says: str) -> None:
    """In a sentence, with the remedy if there is one."""
    refused = run("stream", "list", "--url", url)

    assert (refused.status, says in refused.err) == (1, True)


def test_wait_says_that_a_mark_has_no_position(run: Console, stream: str) -> None:
    """Its writers noted times alone; the status is 0, as time is complete."""
    run.served.post(stream, {"writer": "a", "time": TEN})
    waited = run("wait", stream, str(TEN))

    said = (
        f"{stream} is complete to 2013-01-01T10:00:00Z, by a (1 writer, none expected): mark 1, "
        "without a cut, because its writers note times and no positions\n"
    )
    assert (waited.status, waited.out) == (0, said)


@pytest.fixture
def without_stock(served: Served, stream: str) -> str:
    """Return a stream that advanced to ten without `stock`, which was removed at nine."""
    note(served, stream, stock=TEN - HOUR_MS, shop=TEN - HOUR_MS)
    served.call("DELETE", f"/{stream}/writers/stock")
    note(served, stream, shop=TEN)
    return stream


@pytest.mark.parametrize(
    ("flags", "status", "says"),
    [
        (("--require-all",), 0, ""),
        (("--since", str(TEN - HOUR_MS)), 0, ""),
        (("--require-all", "--since", str(TEN + HOUR_MS)), 0, ""),
        (("--require-all", "--since", str(TEN)), 3, "noted-time: writers with late rows: 1\n"),
    ],
)
def test_wait_ends_with_3_if_rows_of_the_window_are_late(
    run: Console, stream: str, flags: tuple[str, ...], status: int, says: str
) -> None:
    """With `--since`, which says where it begins; the sentence names them in any case."""
    run.served.call("PUT", f"/{stream}", {"expected_writers": ["pos"]})
    for hours in (0, 2):
        run.note(stream, pos=TEN + hours * HOUR_MS)
    late = {"writer": "pos", "late": {"rows": 112, "least": TEN, "most": TEN + 5}}
    run.served.post(stream, late)
    waited = run("wait", stream, str(TEN + 2 * HOUR_MS), *flags)

    assert (waited.status, waited.err) == (status, says)
    assert ("with late rows of pos (112)" in waited.out) == (str(TEN + HOUR_MS) not in flags)


def test_nobody_vouches_for_a_time_before_the_first_mark(run: Console, stream: str) -> None:
    """A stream that began later is complete to any time before: that is all that is said of it."""
    run.note(stream, pos=TEN)
    early = run("wait", stream, str(TEN - HOUR_MS))
    asked = [
        run("wait", stream, str(TEN - HOUR_MS), *words)
        for words in (("--require-known",), ("--require", "pos"))
    ]

    assert early.status == 0
    assert early.out == (
        "nobody vouches for 2013-01-01T09:00:00Z, which is before the first mark of "
        f"{stream}: mark 1, cut 0:10\n"
    )
    says = f"noted-time: {BEFORE_FIRST_MARK}\n"
    assert [(each.status, each.err) for each in asked] == [(3, says)] * 2


def test_the_ledger_lists_late_rows(run: Console, stream: str) -> None:
    """After the marks, merged by hours, and in its JSON."""
    run.note(stream, pos=TEN)
    for least in (TEN - 5, TEN - 9):
        late = {"writer": "pos", "late": {"rows": 56, "least": least, "most": least}}
        run.served.post(stream, late)
    listed = run("ledger", stream)
    as_json = run("ledger", stream, "--json")

    assert re.search(r"pos\s+112\s+2013-01-01T09:59:59.991Z\s+2013-01-01T09:59:59.995Z", listed.out)
    assert [each["rows"] for each in as_json.json["late"]] == [112]


def noting_before_deletes(
    monkeypatch: pytest.MonkeyPatch, served: Served, stream: str, times: list[int]
) -> None:
    """Have `UA` note the next of the times just before each DELETE arrives, while there are any."""
    send = httpx.HTTPTransport.handle_request

    def sent(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE" and times:
            note(served, stream, UA=times.pop(0))
        return send(transport, request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", sent)


def test_remove_shows_what_would_follow_and_asks(run: Console, stream: str) -> None:
    """Off a terminal it cannot ask, so nothing is removed."""
    run.note(stream, UA=TEN, DL=TEN + 60_000)
    refused = run("remove", stream, "UA")

    assert refused.status == 2
    assert "advance to 2013-01-01T10:01:00Z, 1m later, without UA" in refused.err
    assert run.served.writers(stream)["UA"]["state"] == "live"


def test_a_second_removal_changes_nothing(run: Commands, stream: str) -> None:
    """It states since when; no position is named of a writer that notes only times."""
    for name in ("UA", "DL"):
        run("note", stream, name, "2013-01-01T10:00Z", "--join")
    removed = run("remove", stream, "UA", "--yes")
    again = run("remove", stream, "UA")

    assert removed.err.splitlines()[-1] == f"Removed UA from {stream}."
    says = f"Nothing has changed: UA was removed from {stream} at "
    assert (again.status, again.err.startswith(says), again.err.count("\n")) == (0, True, 1)


def test_remove_shows_again_what_would_follow_if_the_writer_noted(
    run: Console, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed as it was seen last."""
    run.note(stream, UA=TEN, DL=TEN + 60_000)
    noting_before_deletes(monkeypatch, run.served, stream, [TEN + 1])
    removed = run("remove", stream, "UA", "--yes")

    assert (removed.status, removed.err.count("without UA")) == (0, 2)
    assert "UA has noted meanwhile" in removed.err
    assert run.served.writers(stream)["UA"]["state"] == "excluded"


def test_remove_gives_up_on_a_writer_that_keeps_noting(
    run: Console, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three times with `--yes`."""
    run.note(stream, UA=TEN)
    left = [*range(TEN + 1, TEN + 9)]
    noting_before_deletes(monkeypatch, run.served, stream, left)
    refused = run("remove", stream, "UA", "--yes")

    assert (refused.status, len(left), run.served.writers(stream)["UA"]["state"]) == (1, 5, "live")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("remove", "AU", "--yes"), 1),
        (("hold", "AU", "--for", "1h"), 1),
        (("hold", "UA"), 2),
        (("hold", "UA", "--for", "1h", "--release"), 2),
    ],
)
def test_a_mistyped_change_of_a_writer_is_refused(
    run: Console, stream: str, words: tuple[str, ...], status: int
) -> None:
    """An unknown writer, and a hold with neither a duration nor a release."""
    run.note(stream, UA=TEN)
    command, writer, *options = words
    refused = run(command, stream, writer, *options)

    assert (refused.status, len(run("changes", stream).table)) == (status, 2)


def test_the_ledger_has_a_row_for_each_writer(run: Commands, without_stock: str) -> None:
    """With the reason, and the position that it had; one that joined since the last mark, too."""
    shown = run("ledger", without_stock)

    assert [(row[4], row[5], row[6], row[7]) for row in shown.table[1:]] == [
        ("stock", "removed", "2013-01-01T09:00:00Z", "0:10"),
        ("shop", "not_joined", "-", "-"),
    ]


@pytest.mark.parametrize(("command", "cursor"), [("ledger", "--after"), ("changes", "--before")])
def test_a_list_of_changes_shows_how_to_continue(
    run: Console, without_stock: str, command: str, cursor: str
) -> None:
    """Beyond the limit; the option begins there."""
    run.served.call("DELETE", f"/{without_stock}/writers/shop")
    run.note(without_stock, late=TEN + 1)
    first = run(command, without_stock, "--limit", "1")
    more = first.err.split()[-1].rstrip(".")
    rest = run(command, without_stock, cursor, more)

    assert first.err == f"There are more than these 1: use --limit or {cursor} {more}.\n"
    assert first.table[1] not in rest.table
    assert len(rest.table) > 1


def test_explain_tries_what_is_asked(run: Console, stream: str) -> None:
    """The answer of the dry run is in the last sentence."""
    run.note(stream, UA=TEN, DL=TEN, AA=TEN + 60_000)
    shown = run("explain", stream, "--exclude", "UA", "--exclude", "DL")

    assert "advance to 2013-01-01T10:01:00Z" in shown.out.splitlines()[-4]


def test_explain_names_the_segments_that_a_reader_lacks(run: Console, stream: str) -> None:
    """In the second sentence and a table; the writers that hold the stream follow."""
    run.note(stream, UA=TEN, DL=TEN + 60_000)
    shown = run("explain", stream, "--position", "0:7", "--position", "1:5")

    assert "not for a writer: mark 1, 2013-01-01T10:00:00Z, needs segment 0" in shown.table[1][0]
    titles = ["segment", "read to", "needed to", "noted by"]
    assert shown.table[-4:-2] == [titles, ["0", "7", "10", "UA"]]


def test_one_writer_can_be_shown(run: Console, stream: str) -> None:
    """By its name, with the process that notes under it."""
    session = {"session": "5b1f", "label": "host:17"}
    run.served.post(stream, {"writer": "UA"} | session, {"writer": "DL"})
    shown = run("writers", stream, "UA")

    assert [(row[0], row[-1]) for row in shown.table] == [("writer", "session"), ("UA", "host:17")]
