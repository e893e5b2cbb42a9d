"""Reads the event times of a file log as its stream says."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from noted_time import Rejected
from noted_time.extending import (
    EventTimeForm,
    StatedForm,
    build_time_form,
    find_forms,
    name_program,
    pluralize,
    split_by_form,
)
from noted_time_extensions.files.arrow_times import convert_times, find_kind
from noted_time_extensions.files.local_times import convert_local_times, count_ms
from spark_integration.extending import INSTANT_TYPE, NO_FORM, OwnForm

log = logging.getLogger("noted_time.spark")

UNIX_MS = pa.timestamp("ms", tz="UTC")

US_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}

NOT_STATED = (
    "column `{column}` has {what}, and stream {stream} does not state how they are read: "
    "pass Columns({option}), or state it for all readers (`{program} stream set {stream} "
    '--event-time-form "column={column} {pair}"`)'
)

ZONE_NOT_STATED = {"what": "times without a zone", "option": 'zone="UTC"', "pair": "zone=UTC"}
UNIT_NOT_STATED = {"what": "numbers", "option": 'unit="ms"', "pair": "unit=ms"}

ANOTHER_OWN = (
    "the query reads column `{column}` with {own}, and stream {stream} states {stated}: leave out "
    "{names}"
)

UTC_WARNING = (
    "%s: the checkpoint is of an earlier version, and column `%s` is read as UTC or Unix ms, as "
    "before. State how it is read: `%s stream set %s --event-time-form …`"
)

STATED_SINCE = (
    "the checkpoint has read column `{column}` as UTC or Unix ms, and stream {stream} now states "
    "{stated}: start a query with a new checkpoint"
)

SKIPPED_WARNING = "%s: %s in an hour that %s skipped: their %s is null"


@dataclass(frozen=True, slots=True)
class SliceForm:
    """How the rows of a slice are read.

    Without a `form`, instants can be read, and files of our writer, whose times are UTC or Unix ms.
    With `is_utc`, all columns are read as UTC or Unix ms.
    """

    column: str
    stream: str
    form: EventTimeForm | None = None
    is_utc: bool = False


@dataclass(frozen=True, slots=True)
class ColumnForms:
    """How the event times of a log are read: as `stated` by its stream, or as a query says.

    With `is_utc`, a column without a stated form is UTC or Unix ms, as for checkpoints of earlier
    versions.
    """

    stream: str
    column: str
    own: OwnForm = NO_FORM
    stated: Sequence[StatedForm] = ()
    is_utc: bool = False

    def take_stated(
        self, forms: Mapping[str, Sequence[StatedForm]], domain: str
    ) -> Sequence[StatedForm]:
        """Return the stated forms of the column, which the query's own must not contradict.

        Raises `Rejected` for another form, also if a checkpoint has read UTC or Unix ms so far.
        """
        stated_forms: list[StatedForm] = []
        for stated_form in find_forms(forms, domain, self.column):
            form = stated_form.form
            if form.column != self.column:
                continue
            self._check_own(form)
            if self.is_utc and not _is_utc_or_ms(form):
                raise Rejected(
                    STATED_SINCE.format(column=self.column, stream=self.stream, stated=form)
                )
            stated_forms.append(stated_form)
        return stated_forms

    def list_spans(
        self, segment: int, first: int, end: int
    ) -> Iterator[tuple[int, int, SliceForm]]:
        """Yield the rows of a segment from `first` to `end` (exclusive), divided by their forms."""
        for span in split_by_form(self.stated, segment, first, end):
            form = span.form or self._build_own_form()
            yield span.first, span.end, SliceForm(self.column, self.stream, form, self.is_utc)

    def check_known(self, kind: pa.DataType, *, is_ours: bool) -> None:
        """Raise `Rejected` if it is not known how a column of this type is read."""
        if not (self.stated or self.own or self.is_utc or is_ours):
            refuse_unknown(kind, self.column, self.stream)

    def _check_own(self, form: EventTimeForm) -> None:
        if form.kind == "instant":
            return
        own_fields = self.own.named.items()
        differing_names = [name for name, value in own_fields if value != getattr(form, name)]
        if differing_names:
            raise Rejected(
                ANOTHER_OWN.format(
                    column=self.column,
                    own=self.own,
                    stream=self.stream,
                    stated=form,
                    names=", ".join(differing_names),
                )
            )

    def _build_own_form(self) -> EventTimeForm | None:
        if not self.own:
            return None
        return EventTimeForm(
            column=self.column,
            kind="text",  # the kind that has all fields; the column's type decides
            zone=self.own.zone,
            unit=self.own.unit,  # type: ignore[arg-type] # checked
            format=self.own.format,
        )


@dataclass(slots=True)
class EventTimeReader:
    """Converts the event times of one file to instants, and counts the skipped local times."""

    form: SliceForm
    is_ours: bool
    skipped: int = field(default=0, init=False)

    def read(self, values: pa.Array) -> pa.Array:
        """Return event times as instants, or as UTC. A local time that its zone skipped is null."""
        kind = values.type
        form = self.form.form
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return values
        if form is None:
            if not (self.is_ours or self.form.is_utc):
                refuse_unknown(kind, self.form.column, self.form.stream)
            if pa.types.is_integer(kind):
                return values.cast(UNIX_MS)
            return values
        time_form = build_time_form(form)
        if pa.types.is_timestamp(kind):
            zone = time_form.find_zone(self.form.column, None)
            if zone is None:
                return values
            times, _, skipped_count = convert_local_times(values, zone)
            self.skipped += skipped_count
            return _add_fractions(times, values)
        is_count = pa.types.is_integer(kind) and form.format is None
        if is_count and form.unit in US_PER_UNIT:
            counts = values.cast(pa.int64())
            return _to_instants(pc.multiply_checked(counts, US_PER_UNIT[form.unit]))
        if is_count and form.unit == "ns":
            moments = values.cast(pa.int64()).cast(pa.timestamp("ns"))
            in_us = pc.floor_temporal(moments, unit="microsecond").cast(pa.timestamp("us"))
            return in_us.cast(INSTANT_TYPE)
        times, _, left_out = convert_times(values, self.form.column, time_form)
        self.skipped += sum(left_out.values())
        return _to_instants(pc.multiply_checked(times, US_PER_UNIT["ms"]))

    def report(self, path: object) -> None:
        """Log how many local times the zone skipped."""
        form = self.form.form
        if self.skipped and form is not None:
            rows = pluralize(self.skipped, "row")
            log.warning(SKIPPED_WARNING, path, rows, form.zone, self.form.column)


def is_doubtful(kind: pa.DataType) -> bool:
    """Return whether times of a type can be read in several ways."""
    return find_kind(kind) != "instant"


def refuse_unknown(kind: pa.DataType, column: str, stream: str) -> None:
    """Raise `Rejected` for a column that can be read in several ways, with the remedy."""
    if not is_doubtful(kind):
        return
    fault = ZONE_NOT_STATED
    if find_kind(kind) == "number":
        fault = UNIT_NOT_STATED
    raise Rejected(NOT_STATED.format(column=column, stream=stream, program=name_program(), **fault))


def warn_of_utc(forms: ColumnForms) -> None:
    """Log that a checkpoint of an earlier version reads its column as before."""
    if forms.is_utc and not forms.stated:
        log.warning(UTC_WARNING, forms.stream, forms.column, name_program(), forms.stream)


def _is_utc_or_ms(form: EventTimeForm) -> bool:
    if form.kind == "number":
        return form.unit == "ms"
    return form.kind == "instant" or (form.kind == "local" and form.zone == "UTC")


def _add_fractions(times: pa.Array, values: pa.Array) -> pa.Array:
    """Add the microseconds that Unix ms lack."""
    local = values.cast(pa.timestamp("us"), safe=False)
    counts = local.cast(pa.int64())
    in_ms = count_ms(local)
    fractions = pc.subtract(counts, pc.multiply(in_ms, US_PER_UNIT["ms"]))
    return _to_instants(pc.add(pc.multiply_checked(times, US_PER_UNIT["ms"]), fractions))


def _to_instants(counts: pa.Array) -> pa.Array:
    array = counts.combine_chunks() if isinstance(counts, pa.ChunkedArray) else counts
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    return array.cast(pa.int64()).cast(pa.timestamp("us")).cast(INSTANT_TYPE)
