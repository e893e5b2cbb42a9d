"""The page of spellings, row by row, and the law of times of several producers."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from noted_time.observing import FirstPass, NoSuchTime, TimeForm, Unit
from noted_time.values import HOUR_MS, Rejected, parse_time, parse_zone
from noted_time_extensions.analyse.reading import file_rows
from noted_time_extensions.analyse.reading.columns import FileColumns
from noted_time_extensions.files import LogTimes
from noted_time_extensions.files.layout import file_name, segment_directory
from noted_time_extensions.observe.extending import make_time_getter, make_values_getter
from tests.cli.conftest import Commands
from tests.support.page import read_page

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
NOON_MS = 1_795_694_400_000
LOCAL = datetime(2026, 11, 26, 13)  # noqa: DTZ001 - without a zone
TYPED: Mapping[str, tuple[object, pa.DataType]] = {
    "a decimal": (Decimal("1795694400.25"), pa.decimal128(13, 3)),
    "Parquet's timestamps without": (LOCAL, pa.timestamp("us")),
    "Parquet's timestamps with ": (NOON, pa.timestamp("us", "UTC")),
    "Parquet's `date32`": (date(2026, 11, 26), pa.date32()),
}
ROWS = re.findall(
    r"^\| (.+) \| (.+) \| (\S.+) \|$", read_page("docs/reference/spellings.md"), re.MULTILINE
)[1:]


class Spelling:
    """A row of the page: its values, its options, and the time in ms, or `None` if left out."""

    def __init__(self, written: str, options: str, read: str) -> None:
        typed_values = [value for name, value in TYPED.items() if written.startswith(name)]
        self.kind = typed_values[0][1] if typed_values else None
        self.values = [value for value, _ in typed_values] or [
            json.loads(text) for text in re.findall(r"`([^`]+)`", written)
        ]
        self.field = "at.$date" if "$date" in written else "at"
        self.options = words = shlex.split("".join(re.findall(r"`(--[^`]+)`", options)))
        options_by_name = dict(zip(words[::2], words[1::2], strict=True))
        zone = parse_zone(options_by_name["--zone"]) if "--zone" in options_by_name else None
        unit = cast("Unit | None", options_by_name.get("--unit"))
        self.form = TimeForm(unit, zone, options_by_name.get("--format"))
        self.time = None if read in {"left out", "no time"} else parse_time(read)


def make_message(value: object) -> Message:
    """Return a record, as far as a time is read from it."""
    encoded_value = json.dumps({"at": value}, default=str).encode()

    def read_value() -> bytes:
        return encoded_value

    return cast("Message", SimpleNamespace(value=read_value))


def read_record(
    value: object, spelling: Spelling, form: TimeForm, other_values: Sequence[object]
) -> Any:  # noqa: ANN401 - as read
    """Return the time of a record, among others, after its form is judged."""
    if spelling.kind is not None:

        def get_value(_: Message) -> Any:  # noqa: ANN401 - as the page has it
            return value

        getter = make_time_getter(get_value, form.judge("at", [value], NOON_MS))
        return getter(make_message(None))
    get_values = make_values_getter(spelling.field)
    first_values = [*get_values(make_message(value))]
    for other_value in other_values:
        first_values += get_values(make_message(other_value))
    judged_form = form.judge("at", first_values, NOON_MS)
    return make_time_getter(spelling.field, judged_form)(make_message(value))


def list_others(value: object) -> list[object]:
    return [NOON_MS] * 3 if isinstance(value, int) else ["2026-11-26 12:00:00Z"] * 3


SPELLED = [pytest.param(Spelling(*row), id=row[0][:40]) for row in ROWS]


def test_the_page_has_28_spellings() -> None:
    assert len(ROWS) == 28


@pytest.mark.parametrize("spelling", SPELLED)
def test_a_topic_has_times_of_each_spelling(spelling: Spelling) -> None:
    for value in spelling.values:
        other_values = [] if spelling.time is not None else list_others(value)
        record = None
        with suppress(NoSuchTime):
            record = read_record(value, spelling, spelling.form, other_values)
        assert record == spelling.time
        if spelling.options and spelling.time is not None:
            with pytest.raises(Rejected, match=spelling.options[0]):
                read_record(value, spelling, TimeForm(), other_values)


@pytest.mark.parametrize("spelling", SPELLED)
def test_files_have_times_of_each_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: Spelling
) -> None:
    monkeypatch.chdir(tmp_path)
    analyse = Commands("http://127.0.0.1:9")
    for value in spelling.values:
        other_values = [] if spelling.time is not None else list_others(value)
        name = "f.jsonl" if spelling.kind is None else "f.parquet"
        column = [*other_values, value["$date"] if isinstance(value, dict) else value]
        if spelling.kind is not None:
            pq.write_table(pa.table({"at": pa.array(column, spelling.kind)}), name)
        else:
            Path(name).write_text("".join(json.dumps({"at": value}) + "\n" for value in column))
        words = ("analyse", "files", name, "--time", "at", "--json")
        analysis = analyse(*words, *spelling.options).json
        expected = spelling.time or NOON_MS
        assert (analysis["first_ms"], analysis["last_ms"]) == (expected, expected)
        assert analysis["rows"] == (len(other_values) or 1)
        if spelling.options and spelling.time is not None:
            refusal = analyse(*words)
            assert (refusal.status, spelling.options[0] in refusal.err) == (1, True)


FORMATS = {"digits": "%Y%m%d%H%M%S", "log": "%d/%b/%Y:%H:%M:%S %z"}
HALF_DAYS = {
    "Europe/Berlin": 1_792_882_800_000,
    "America/New_York": 1_793_505_600_000,
    "Australia/Lord_Howe": 1_775_307_600_000,
    "Asia/Kathmandu": NOON_MS,
    "UTC": NOON_MS,
}
"""The begin of twelve hours in each zone; summer time ends in the first three."""


class Producer:
    """Writes instants in one way, and knows how each is to be read."""

    def __init__(self, zone: str, kind: str, unit: Unit, *, is_wrong: bool) -> None:
        self.zone = ZoneInfo(zone)
        self.kind = kind
        self.is_wrong = is_wrong
        self.form = TimeForm(
            unit if kind == "number" else None,
            None if kind in {"number", "aware"} else self.zone,
            FORMATS.get(kind),
        )
        self.size = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]

    def write(self, ms: int) -> tuple[object, int | None]:
        """Return the value written for an instant, and its time."""
        moment = datetime.fromtimestamp(ms // 1000, self.zone)
        local = moment.replace(tzinfo=None, fold=0)
        first = round(local.replace(tzinfo=self.zone).timestamp()) * 1000
        if self.kind == "number":
            number = ms * 10**6 // self.size
            return (number // 1000, None) if self.is_wrong else (number, ms)
        if self.kind == "aware":
            return moment.isoformat(), ms
        if self.kind == "log":
            return moment.strftime(FORMATS["log"]), ms
        return local.strftime(FORMATS["digits"]) if self.kind == "digits" else str(local), first


producers = st.fixed_dictionaries(
    {
        "zone": st.sampled_from([*HALF_DAYS]),
        "kind": st.sampled_from(["number", "aware", "local", "digits", "log"]),
        "unit": st.sampled_from(["s", "ms", "us", "ns"]),
        "wrong": st.integers(0, 3),
    }
)
instants = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 12 * 3600)), min_size=8, max_size=30
)


@given(column=producers, rows=instants)
def test_times_are_read_as_a_model_reads_them_or_counted(
    tmp_path_factory: pytest.TempPathFactory, column: dict[str, Any], rows: list[tuple[int, int]]
) -> None:
    """Several producers write to one partition, and one may use another unit."""
    wrong = column["wrong"]
    zone = column["zone"]
    kind = column["kind"]
    unit = column["unit"]
    producers = [Producer(zone, kind, unit, is_wrong=n == wrong and n > 0) for n in range(4)]
    begin = HALF_DAYS[zone]
    written_rows = []
    for number, offset_s in rows:
        moment = begin + offset_s * 1000
        written_rows += [producers[0].write(moment), producers[number].write(moment)]
    written_values, model = zip(*written_rows, strict=True)
    readable = [time for time in model if time is not None]
    root = tmp_path_factory.mktemp("log")
    segment_directory(root, "s", 0).mkdir(parents=True)
    path = segment_directory(root, "s", 0) / file_name("s", 0, 0)
    pq.write_table(pa.table({"at": list(written_values)}), path)
    look = LogTimes(root, "s", "at", form=producers[0].form)
    look_result = look()
    form = producers[0].form.judge("at", written_values, NOON_MS)
    get_time = make_time_getter("at", form)
    records = list[int | None]()
    for value in written_values:
        try:
            records.append(cast("int", get_time(make_message(value))))
        except NoSuchTime:
            records.append(None)
    columns = FileColumns(time="at")
    file_rows_read = file_rows.read_files(str(path), columns, producers[0].form, None, 100, None)
    kept_rows = file_rows_read.remove_impossible(producers[0].form)

    assert (look_result.newest, look.unusable) == ({0: max(readable)}, len(model) - len(readable))
    assert records == list(model)
    assert kept_rows.times.tolist() == readable
    assert len(kept_rows.notices) == bool(len(readable) < len(model))
    second = file_rows_read.times if file_rows_read.second is None else file_rows_read.second
    gaps = (second - file_rows_read.times)[second != file_rows_read.times]
    assert len(gaps) == sum(isinstance(time, FirstPass) for time in records)
    assert {int(gap) for gap in gaps} <= {HOUR_MS // 2, HOUR_MS}
