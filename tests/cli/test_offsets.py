"""`complete-to` and `wait` for whatever has offsets in a file."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.conftest import Commands
from tests.support.served import Served

TEN = 1_357_034_400_000


@pytest.fixture
def stream(served: Served) -> str:
    """Return a stream with two marks: 10:00 at {0: 10, 1: 4}, a minute later at {0: 20, 1: 4}."""
    name = uuid4().hex
    served.create(name)
    for minute, position in enumerate([{"0": 10, "1": 4}, {"0": 20}]):
        note = {"writer": "shop", "time": TEN + minute * 60_000, "position": position}
        served.call("POST", f"/{name}/notes", {"notes": [note]})
    return name


@pytest.mark.parametrize(
    ("typed", "flags", "shown"),
    [
        ('{"0": 19, "1": 12}', (), "2013-01-01T10:00:00Z"),
        ('{"0": 20, "1": 4}', (), "2013-01-01T10:01:00Z"),
        ('{"0": 19, "1": 3}', ("--inclusive",), "2013-01-01T10:01:00Z"),
        ('{"0": 20, "1": 4}', ("--floor", "1h"), "2013-01-01T10:00:00Z"),
    ],
)
def test_offsets_on_standard_input_have_a_time(
    run: Commands, stream: str, typed: str, flags: tuple[str, ...], shown: str
) -> None:
    """That of the last mark whose cut they reach, and nothing else."""
    assert run("complete-to", stream, "--offsets", "-", *flags, typed=typed) == (
        0,
        f"{shown}\n",
        "",
    )


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ('{"0": 3}', "what was read reaches no mark yet: nothing is known"),
        ('{"0": 20, "1": 4, "9": 1}', "partition 9 is unknown: stream"),
        ('{"0": -1}', "the offset of partition 0 is -1"),
        ("no JSON", "the offsets are no JSON"),
    ],
)
def test_offsets_without_a_time_end_with_1(
    run: Commands, stream: str, typed: str, says: str
) -> None:
    """And a sentence."""
    found = run("complete-to", stream, "--offsets", "-", typed=typed)

    assert (found.status, found.out, says in found.err) == (1, "", True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("complete-to", "s", "--inclusive"), "--inclusive is about --offsets"),
        (("complete-to", "s", "--kafka", "h:1"), "--kafka and --group belong together"),
        (("complete-to", "s", "--group", "g"), "--kafka and --group belong together"),
        (("complete-to", "s", "--topic", "t"), "--topic and --kafka-settings are about --kafka"),
        (("complete-to", "s", "--offsets", "-", "--kafka", "h:1", "--group", "g"), "two readers"),
        (("complete-to", "--table", "delta:/t", "--offsets", "-"), "leave --table out"),
        (("wait", "s", "5", "--offsets", "-"), "can be read once"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    run: Commands, arguments: tuple[str, ...], says: str
) -> None:
    """With what to do."""
    found = run(*arguments)

    assert (found.status, says in " ".join(found.err.split())) == (2, True)


def test_wait_reads_the_file_again(run: Commands, stream: str, tmp_path: Path) -> None:
    """It ends once the offsets in it reach the mark, not when the stream is complete."""
    file, time = tmp_path / "offsets.json", str(TEN + 60_000)
    words = ("wait", stream, time, "--offsets", str(file), "--timeout", "0s")
    missing = run(*words)
    file.write_text('{"0": 19, "1": 4}')
    early = run(*words)
    file.write_text('{"0": 20, "1": 4}')
    found = run(*words)

    assert [each.status for each in (missing, early, found)] == [1, 124, 0]
    assert f"the offsets in {file} cannot be read" in missing.err
    assert "what was read reaches the mark of 2013-01-01T10:00:00Z" in early.err
    assert f"complete to 2013-01-01T10:01:00Z: mark 2, read by the offsets in {file}" in found.out
