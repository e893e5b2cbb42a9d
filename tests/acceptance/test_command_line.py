import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.store.migrate import migrate
from tests.support.processes import ServeProcess, environment, run_command
from tests.support.terminals import run_on_terminal

DATABASE = "noted-time.db"


def test_hints_name_the_command_that_started_the_program(tmp_path: Path) -> None:
    """Help, errors and the first steps show `./run noted-time` in a clone."""
    program = "./run noted-time"
    words = [sys.executable, "-m", "noted_time_cli", "demo-stream", "--help"]
    help_text = subprocess.check_output(
        words, env=environment(NOTED_TIME_PROGRAM=program), text=True
    )
    served = ServeProcess(tmp_path, is_forked=False, NOTED_TIME_PROGRAM=program)
    with served.ready() as controller:
        page = httpx.get(controller.url).text
        words_of_question = ("explain", "x", "--url", controller.url)
        refusal = run_command(*words_of_question, cwd=tmp_path, NOTED_TIME_PROGRAM=program)

    assert "Try it:  ./run noted-time demo-stream --for 60s" in help_text
    assert 'data-program="./run noted-time"' in page
    assert refusal.stderr == (
        "noted-time: there is no stream 'x': `./run noted-time stream list` lists the streams\n"
    )


def test_serve_refuses_a_schema_that_no_migration_knows(tmp_path: Path) -> None:
    """The error has the remedy, and the file stays as it is."""
    migrate(f"sqlite:///{tmp_path / DATABASE}")
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        connection.execute("UPDATE noted_time_version SET version_num = '0000'")
    refusal = run_command("serve", cwd=tmp_path)

    says = (
        "noted-time: the schema of sqlite:///noted-time.db is at 0000, of a version before the "
        "first release, and cannot be migrated: start the noted-time that created it, or name an "
        "empty database"
    )
    assert (refusal.returncode, refusal.stderr.splitlines()[-1]) == (1, says)


@pytest.mark.parametrize(
    ("status", "url", "says"),
    [
        (2, "mysql://u:secret@h/db", "'mysql://u:***@h/db' names no SQLite file"),
        (2, "memory:", "'memory:' is not a URL: use sqlite:///path/to/file.db"),
        (2, "nonsense:::", "'nonsense:::' is not a URL: use sqlite:///path/to/file.db"),
        (2, "sqlite://", "'sqlite://' names no SQLite file"),
        (1, "sqlite:///not/there/file.db", "unable to open database file: create its directory"),
        (1, "sqlite:///notes.csv", "notes.csv is not a SQLite database, so pass another file"),
    ],
)
def test_bad_database_url_is_explained(tmp_path: Path, status: int, url: str, says: str) -> None:
    """The output is a sentence, without a traceback or a password."""
    (tmp_path / "notes.csv").write_text("writer,time")
    refusal = run_command("serve", "--database", url, cwd=tmp_path)

    output = refusal.stdout + refusal.stderr
    findings = (refusal.returncode, says in output, "Traceback" in output, "secret" in output)
    assert findings == (status, True, False, False)


def test_a_second_controller_is_refused(tmp_path: Path) -> None:
    """Two processes on one file would have two states of the notes, so the second ends."""
    with ServeProcess(tmp_path).ready() as first:
        second = run_command("serve", "--port", "0", cwd=tmp_path)
        still = httpx.put(f"{first.url}/v1/streams/s").status_code

    reason = f"{tmp_path / DATABASE} is served by another controller"
    says = f"noted-time: {reason}; stop it, or choose another --database"
    assert (second.returncode, second.stderr.splitlines()[-1], still) == (1, says, 201)


def test_settings_are_read_from_the_environment(tmp_path: Path) -> None:
    """Database, address, level and format; the command line wins."""
    variables: dict[str, Any] = {
        "NOTED_TIME_DATABASE": f"sqlite:///{tmp_path}/elsewhere.db",
        "NOTED_TIME_HOST": "127.0.0.2",
        "NOTED_TIME_PORT": "1",
        "NOTED_TIME_LOG_LEVEL": "info",
        "NOTED_TIME_LOG_FORMAT": "json",
    }
    with ServeProcess(tmp_path, **variables).ready() as controller:
        host = controller.url.rpartition(":")[0]

    assert (host, (tmp_path / "elsewhere.db").exists()) == ("http://127.0.0.2", True)


def test_a_taken_port_is_reported(tmp_path: Path) -> None:
    """The second controller ends with the reason and the remedy, and leaves no new database."""
    with ServeProcess(tmp_path).ready() as first:
        port = str(first.port)
        other = "sqlite:///other.db"
        second = run_command("serve", "--database", other, "--port", port, cwd=tmp_path)

    why = f"cannot listen on 127.0.0.1:{port}: Address already in use"
    says = f"noted-time: {why}; choose another --port, or --host\n"
    left = (tmp_path / "other.db").exists()
    assert (second.returncode, second.stderr, left) == (1, says, False)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("--host 0.0.0.0", 1),  # without a token
        ("--host 203.0.113.1", 1),  # of another machine
        ("--advertise ftp://a", 2),
        ("--tls-cert missing.pem", 1),
        ("--max-waiting-notes 1", 2),
        ("--host-name a", 2),
        ("--database sqlite:///not/there/file.db", 1),
    ],
)
def test_refused_serve_leaves_no_file(tmp_path: Path, words: str, status: int) -> None:
    refusal = run_command("serve", "--port", "0", *words.split(), cwd=tmp_path)

    assert (refusal.returncode, list(tmp_path.iterdir())) == (status, []), refusal.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE noted_time_version SET version_num = '0000'",
        "DROP TABLE noted_time_late",
        "INSERT INTO noted_time_mark SELECT 'a', 'b', 1, 1, 1, '{}', 0, '', 0, '', 1, 0, 1, 0",
    ],
    ids=["revision", "table", "damage"],
)
def test_refused_database_gets_no_files_beside_it(tmp_path: Path, statement: str) -> None:
    migrate(f"sqlite:///{tmp_path / DATABASE}")
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        connection.execute(statement)
    refusal = run_command("serve", "--port", "0", cwd=tmp_path)

    assert (refusal.returncode, list(tmp_path.iterdir())) == (1, [tmp_path / DATABASE])


def test_network_address_without_token_names_both_commands(tmp_path: Path) -> None:
    """There is no database yet that could have a token."""
    refusal = run_command("serve", "--host=0.0.0.0", "--port=0", cwd=tmp_path)
    commands = re.findall("`noted-time (.*?)`", refusal.stderr)
    statuses = [run_command(*command.split(), cwd=tmp_path).returncode for command in commands]

    assert [command.split()[0] for command in commands] == ["migrate", "token"]
    assert statuses == [0, 0]


def test_a_shell_completes_its_commands(tmp_path: Path) -> None:
    """The script that `--install-completion` writes calls `noted-time`."""
    script = run_command(cwd=tmp_path, _NOTED_TIME_COMPLETE="source_bash").stdout
    completion_variables = {"COMP_WORDS": "noted-time stream ", "COMP_CWORD": "2"}
    output = run_command(
        cwd=tmp_path, _NOTED_TIME_COMPLETE="complete_bash", **completion_variables
    ).stdout

    completes_it = script.rstrip().endswith(" noted-time")
    assert completes_it
    assert output.split() == ["list", "create", "set", "show", "log", "delete"]


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal")
def test_a_terminal_gets_tables_and_questions(tmp_path: Path) -> None:
    """The test answers its question with yes."""
    with ServeProcess(tmp_path).ready() as controller:
        httpx.put(f"{controller.url}/v1/streams/flights")
        noted_time = [sys.executable, "-m", "noted_time", "stream"]
        variables = environment(NOTED_TIME_URL=controller.url)
        list_result = run_on_terminal([*noted_time, "list"], variables, cwd=tmp_path)
        delete = [*noted_time, "delete", "flights"]
        kept_result = run_on_terminal(delete, variables, cwd=tmp_path, typed_text="n\n")
        deleted_result = run_on_terminal(delete, variables, cwd=tmp_path, typed_text="y\n")

    question = "Remove flights with 0 writers and 0 marks, for good? [y/N]"
    are_asked = [question in output for _, output in (kept_result, deleted_result)]
    assert (are_asked, [status for status, _ in (list_result, kept_result, deleted_result)]) == (
        [True, True],
        [0, 1, 0],
    )
    assert (
        "flights   default" in list_result[1],
        "─" in list_result[1],
        "\t" in list_result[1],
    ) == (True, True, False)


def test_the_log_is_json_off_a_terminal(tmp_path: Path) -> None:
    """One object a line, each with time, level and event; requests are not in it.

    The first has the absolute path of the database, and whether it was created now.
    """
    with ServeProcess(tmp_path).ready() as controller:
        (first,) = [line for line in controller.log() if line["event"] == "starting"]
    with ServeProcess(tmp_path).ready() as controller:
        httpx.put(f"{controller.url}/v1/streams/s")
        notes = {"notes": [{"writer": "a", "time": 5}]}
        httpx.post(f"{controller.url}/v1/streams/s/notes", json=notes)
        controller.stop()

        lines = controller.log()
    events = [line["event"] for line in lines if {"timestamp", "level"} <= line.keys()]
    assert events == ["starting", "started", "serving", "stream_changed", "audit", "stopped"]
    path = f"sqlite:///{tmp_path / DATABASE}"
    databases = [(line["database"], line["created"]) for line in (first, lines[0])]
    assert databases == [(path, True), (path, False)]
