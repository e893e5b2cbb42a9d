"""Law: a file's column is read as the observer reads it, row by row; no Spark runs here."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Rejected
from noted_time.observing import ANY_TIME, TimeForm, Unit, describe_form
from noted_time.observing.time_forms import NoSuchTime
from noted_time.values import EPOCH, EventTimeForm, StatedForm, parse_zone
from noted_time_extensions.files.arrow_times import find_kind
from noted_time_extensions.files.spark.forms import ColumnForms, EventTimeReader, SliceForm
from spark_integration.marks.own_form import OwnForm

FIRST_MS = 31_536_000_000
LAST_MS = 4_102_444_800_000
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca")
ONE_MS = timedelta(milliseconds=1)
FORMATS = ("%Y%m%d%H%M%S", "%d.%m.%Y %H:%M:%S", "%d/%b/%Y:%H:%M:%S")

_zones = st.sampled_from(ZONES)
_seconds = st.lists(st.integers(FIRST_MS // 1000, LAST_MS // 1000), min_size=1, max_size=4)


def read_rows(values: list[object], form: TimeForm) -> list[int | None]:
    """Return the times that an observer reads, in Unix ms. A skipped local time is `None`."""
    times: list[int | None] = []
    for value in values:
        try:
            times.append(form.ms_of(value))
        except NoSuchTime:
            times.append(None)
    return times


def read_column(values: list[object], kind: pa.DataType, form: TimeForm) -> list[int | None]:
    """Return what Spark's reader reads by the form that the observer states, in Unix ms."""
    stated_form = describe_form("t", find_kind(kind, form.unit), form)
    reader = EventTimeReader(SliceForm("t", "trips", stated_form), is_ours=False)
    moments = reader.read(pa.array(values, kind)).to_pylist()
    return [to_ms(moment) for moment in moments]


def to_ms(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - EPOCH) // ONE_MS


def write_local(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


@given(seconds=_seconds, name=_zones, unit=st.sampled_from(("ms", "us", "ns")))
def test_local_times(seconds: list[int], name: str, unit: str) -> None:
    form = TimeForm(zone=parse_zone(name), bounds=ANY_TIME)
    values: list[object] = [write_local(second) for second in seconds]

    assert read_column(values, pa.timestamp(unit), form) == read_rows(values, form)


@given(
    counts=st.lists(st.integers(FIRST_MS, LAST_MS), min_size=1, max_size=4),
    unit=st.sampled_from(("s", "ms", "us", "ns")),
)
def test_numbers(counts: list[int], unit: Unit) -> None:
    per_unit = {"s": 1 / 1000, "ms": 1, "us": 1000, "ns": 1_000_000}
    form = TimeForm(unit, bounds=ANY_TIME)
    values: list[object] = [int(count * per_unit[unit]) for count in counts]
    texts: list[object] = [str(value) for value in values]

    assert read_column(values, pa.int64(), form) == read_rows(values, form)
    assert read_column(texts, pa.string(), form) == read_rows(texts, form)


@given(seconds=_seconds, name=_zones, pattern=st.sampled_from(FORMATS))
def test_formats(seconds: list[int], name: str, pattern: str) -> None:
    form = TimeForm(zone=parse_zone(name), format=pattern, bounds=ANY_TIME)
    values: list[object] = [write_local(second).strftime(pattern) for second in seconds]

    assert read_column(values, pa.string(), form) == read_rows(values, form)


@given(seconds=_seconds, name=_zones)
def test_iso_texts(seconds: list[int], name: str) -> None:
    form = TimeForm(zone=parse_zone(name), bounds=ANY_TIME)
    values: list[object] = [write_local(second).isoformat() for second in seconds]

    assert read_column(values, pa.string(), form) == read_rows(values, form)


def test_microseconds_of_local_times_are_kept() -> None:
    """Nanoseconds are not, as Spark has none."""
    form = EventTimeForm(column="t", kind="local", zone="America/New_York")
    reader = EventTimeReader(SliceForm("t", "trips", form), is_ours=False)
    local = datetime.fromisoformat("2026-11-20T07:00:00.123456")
    moments = reader.read(pa.array([local], pa.timestamp("us")))

    assert moments.to_pylist() == [datetime(2026, 11, 20, 12, 0, 0, 123_456, UTC)]


def test_skipped_hour_is_null_and_counted() -> None:
    form = EventTimeForm(column="t", kind="local", zone="America/New_York")
    reader = EventTimeReader(SliceForm("t", "trips", form), is_ours=False)
    local = [datetime.fromisoformat("2026-03-08T02:30"), datetime.fromisoformat("2026-03-08T03:30")]

    assert reader.read(pa.array(local, pa.timestamp("us"))).to_pylist() == [
        None,
        datetime(2026, 3, 8, 7, 30, tzinfo=UTC),
    ]
    assert reader.skipped == 1


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.int64(), pa.string(), pa.date32()])
def test_column_in_doubt_is_read_from_our_files(kind: pa.DataType) -> None:
    forms = ColumnForms("trips", "t")
    with pytest.raises(Rejected, match="stream trips does not state how they are read"):
        forms.check_known(kind, is_ours=False)
    with pytest.raises(Rejected, match="does not state"):
        EventTimeReader(SliceForm("t", "trips"), is_ours=False).read(pa.nulls(1, kind))
    forms.check_known(kind, is_ours=True)
    ColumnForms("trips", "t", is_utc=True).check_known(kind, is_ours=False)


def test_rows_are_divided_where_the_form_changes() -> None:
    """A query that names the present zone is refused, as older rows have another."""
    utc = EventTimeForm(column="t", kind="local", zone="UTC")
    berlin = EventTimeForm(column="t", kind="local", zone="Europe/Berlin")
    stated_forms = {"default": (StatedForm(utc, {}), StatedForm(berlin, {0: 5}))}
    forms = ColumnForms("trips", "t", stated=stated_forms["default"])
    spans = [(first, end, form.form) for first, end, form in forms.list_spans(0, 3, 9)]

    assert spans == [(3, 5, utc), (5, 9, berlin)]
    with pytest.raises(Rejected, match="zone='Europe/Berlin', and stream trips states t as local"):
        ColumnForms("trips", "t", OwnForm(zone="Europe/Berlin")).take_stated(
            stated_forms, "default"
        )


def test_old_checkpoint_needs_a_form_that_reads_the_same() -> None:
    forms = ColumnForms("trips", "t", is_utc=True)
    for form in (
        EventTimeForm(column="t", kind="local", zone="UTC"),
        EventTimeForm(column="t", kind="number", unit="ms"),
        EventTimeForm(column="other", kind="local", zone="Asia/Tokyo"),
    ):
        forms.take_stated({"default": (StatedForm(form, {}),)}, "default")
    tokyo = EventTimeForm(column="t", kind="local", zone="Asia/Tokyo")
    with pytest.raises(Rejected, match="start a query with a new checkpoint"):
        forms.take_stated({"default": (StatedForm(tokyo, {}),)}, "default")
