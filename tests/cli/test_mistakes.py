"""What the command line says about mistakes: what is wrong, why, and what to type."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.cli.conftest import Commands, Said
from tests.support.served import Served


def sentence_of(said: Said) -> str:
    """Return what was printed on standard error, without the frame and its line breaks."""
    return " ".join(said.err.replace("│", " ").replace("─", " ").split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "explian s",
            "'explian' is an unknown command; did you mean 'explain'? Known: serve, migrate,",
        ),
        ("stream set s", "'set' is an unknown command; known: list, create, show, log, delete"),
        (
            "observe kafka payments",
            "'payments' is an unknown command; known: ingestion, timestamp, read-timestamp, field,",
        ),
        ("stream list --limit many", "'--limit': must be an integer, not 'many'"),
        ("stream list --limit 0", "'--limit': must be at least 1, not '0'"),
        ("serve --port 99999", "must be at most 65535, not '99999'"),
        ("note s w --state done", "'--state': 'done' is not one of 'live', 'idle', 'finished'."),
        ("stream create s --writer-timeout 0s", "'--writer-timeout': must be at least 1ms, not 0s"),
        ("stream create s --writer-timeout none", "'--writer-timeout': invalid duration 'none'"),
        ("stream create s --max-segments 0", "'--max-segments': must be a number from 1 to 100000"),
        ("stream create s --max-segments x", "from 1 to 100000, not 'x'"),
        ("stream create s --domain a/b", "'--domain': the name 'a/b' is not 1 to 249 characters"),
        ("explain s --writer-timeout 0s", "'--writer-timeout': must be at least 1ms, not 0s"),
        ("hold s w --for 0s", "'--for': must be at least 1ms, not 0s"),
        ("watch s --every 99ms", "'--every': must be at least 100ms, not 99ms"),
        ("wait s 2013-01-01T10:00", "has no zone"),
        ("wait s soon", "'soon' is not a time: use an integer, or ISO 8601"),
        ("wait s 5 --timeout 1.5h", "invalid duration '1.5h'; use for example 90d"),
        ("wait s 5 --require-all --require-known", "leave one out"),
        ("wait s 5 --offsets -", "can be read once"),
        ("complete-to s --floor 0s", "must be at least 1ms, not 0s"),
        ("complete-to s --zone ../etc", "there is no zone '../etc'"),
        ("complete-to s --inclusive", "--inclusive is about --offsets"),
        ("complete-to s --kafka h:1", "--kafka and --group belong together"),
        ("complete-to s --group g", "--kafka and --group belong together"),
        ("complete-to s --topic t", "--topic is about --kafka or --checkpoint"),
        ("complete-to s --kafka-settings f", "--kafka-settings is about --kafka"),
        (
            "complete-to s --offsets - --kafka h:1 --group g",
            "--offsets and --kafka are different readers",
        ),
        ("complete-to --table delta:/t --offsets -", "leave --table out"),
        ("observe log event-time a b --delay 5m", "Missing option '--field'"),
        ("observe log event-time a b --field departure", "Missing option '--delay'"),
        ("observe log ingestion a b --idle 1m", "No such option: --idle"),
        ("observe log ingestion a b --poll 9ms", "must be at least 10ms, not 9ms"),
        ("observe log ingestion a b --timeout 0s", "must be at least 1ms, not 0s"),
        ("observe kafka timestamp a b", "Missing option '--delay'"),
        ("observe kafka ingestion a b --partition 1", "No such option: --partition"),
        ("observe kafka field a b --delay 5m", "Missing option '--field'"),
        ("observe kafka timestamp a b --delay 5m --from latest", "No such option: --from"),
        ("changed-since s 5 --size 0s", "'--size': must be at least 1ms, not 0s"),
        (
            "complete-to s --zone Berlin",
            "there is no zone 'Berlin' here: did you mean 'Europe/Berlin'?",
        ),
        ("complete-to s --zone europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("complete-to s --zone Narnia", "use for example Europe/Berlin"),
        ("complete-to s --table delta:t", "s is a stream and delta:t a table: leave out STREAM or"),
        (
            "explain s --position 12",
            "'--position': '12' is not of the form SEGMENT:OFFSET, for example",
        ),
        ("note s w 5 --position a:5", "'--position': 'a:5' is not of the form SEGMENT:OFFSET"),
        ("note s w 5 --position 0:99999999999999999999", "is not of the form SEGMENT:OFFSET"),
        ("seal s --cut 0", "'--cut': '0' is not of the form SEGMENT:OFFSET, for example 0:120"),
        (
            "seal s --final-time 9",
            "'--final-time': '9' is not of the form DOMAIN=TIME, for example d",
        ),
    ],
)
def test_a_mistyped_command_line_is_explained(words: str, says: str) -> None:
    """With the argument, the reason and what is possible. No controller is asked."""
    said = Commands("http://127.0.0.1:9")(*words.split())

    assert (said.status, said.out, says in sentence_of(said)) == (2, "", True), sentence_of(said)


@pytest.mark.parametrize("words", ["", "stream", "stream delete", "serve", "observe log ingestion"])
def test_help_shows_no_value_for_a_flag(run: Commands, words: str) -> None:
    """Because a flag has none."""
    shown = run(*words.split(), "--help").out

    assert ("--help" in shown, "bool" in shown) == (True, False)


def test_a_setting_that_may_be_off_takes_none(run: Commands, served: Served) -> None:
    """And 0 is a value of others."""
    options = ["--max-offset-jump", "none", "--max-time-ahead", "none", "--mark-interval", "0s"]
    done = run("stream", "create", "unbounded", *options, "--max-segments", "9")
    found = served.get("unbounded")

    names = ("max_offset_jump", "max_time_ahead_ms", "mark_interval_ms", "max_segments")
    assert (done.status, [found[name] for name in names]) == (0, [None, None, 0, 9])


def test_an_unknown_stream_is_compared_with_those_that_exist(run: Commands, served: Served) -> None:
    """Only a command that writes offers to create it."""
    served.create("departures")
    near = run("stream", "delete", "departure", "--yes").err
    far = run("explain", "nope").err
    noted = run("note", "nope", "UA", "5", "--join").err

    unknown = "noted-time: there is no stream 'nope': `noted-time stream list` lists the streams"
    assert (near, far, noted) == (
        "noted-time: there is no stream 'departure': did you mean 'departures'?\n",
        f"{unknown}\n",
        f"{unknown}; `noted-time stream create nope` creates it\n",
    )


@pytest.fixture(params=[b"", b"\x00\x00\x00\x10no such request\r\n\r\n"])
def other_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Serve another protocol than HTTP: hang up, or answer something else."""

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(10_000)
                    connection.sendall(request.param)

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threading.Thread(target=answer, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)  # ends the thread


def test_a_port_of_another_server_is_explained(run: Commands, other_server: str) -> None:
    """A Kafka broker hangs up on HTTP, and has no TLS."""
    plain, encrypted = (
        run("stream", "list", "--url", f"{scheme}://{other_server}") for scheme in ("http", "https")
    )

    remedies = (
        "or needs https://\n",
        "does not use TLS; use http://, or correct the port in the URL\n",
    )
    ends = [
        then if each.err.endswith(then) else each.err
        for each, then in zip((plain, encrypted), remedies, strict=True)
    ]
    assert (ends, plain.status, encrypted.status) == ([*remedies], 69, 69)


def test_https_of_a_controller_without_tls_is_explained(run: Commands, served: Served) -> None:
    """Without the words of OpenSSL."""
    url = served.url.replace("http", "https")
    said = run("stream", "list", "--url", url)

    fact = "the port does not use TLS; use http://, or correct the port in the URL"
    assert (said.status, said.err) == (69, f"noted-time: no answer from {url}/v1/streams: {fact}\n")


@pytest.mark.parametrize(
    "words",
    ["explain s", "watch s", "stream list", "writers s", "complete-to s", "note s w 5", "status"],
)
def test_without_a_controller_every_command_ends_alike(words: str) -> None:
    """With the remedy."""
    said = Commands("http://127.0.0.1:9")(*words.split())

    remedy = "start a controller there (`noted-time serve`), or correct the URL"
    assert (said.status, said.err.endswith(f"Connection refused; {remedy}\n")) == (69, True)


def test_a_postgresql_that_is_away_is_one_line(run: Commands) -> None:
    """The driver's message has several, and an indent."""
    said = run("migrate", "--database", "postgresql://ops:secret@127.0.0.1:9/noted")

    begins = "noted-time: the database postgresql://ops:***@127.0.0.1:9/noted: connection failed: "
    assert (said.status, said.err.startswith(begins), said.err.count("\n")) == (1, True, 1)
    assert ("\\n" in said.err, "\\t" in said.err) == (False, False)
