"""Pins the sources of a batch job, and lets its table inherit their claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from secrets import token_hex

from msgspec import Struct
from msgspec.structs import replace

from noted_time.extending import Rejected, check_least, validate_name
from noted_time_extensions.tables.claim import RESERVED_NAMES, Claim
from noted_time_extensions.tables.committing import format_properties
from noted_time_extensions.tables.pins import Pin, build_inheritance
from noted_time_extensions.tables.table_urls import LoadedTable, make_absolute, open_history

WINDOW_START = (
    "time_of={!r} is the start of a window, but its rows are complete when it ends: use the column "
    "of its end, or a delay of at least the window's size"
)


class Inheritance(Struct, frozen=True):
    """The record of an inherited claim, and the `former` time of the name (Unix ms), if any.

    If `is_repeated`, the table had the record already.
    """

    claim: Claim
    former: int | None = None
    is_repeated: bool = False


def pin(*sources: str) -> list[Pin]:
    """Return the present versions of tables, before a job reads them.

    Raises as `standing`, and `Rejected` for a table without commits.
    """
    pins = []
    for source in sources:
        url = make_absolute(source)
        pins.append(Pin.of(url, open_history(url)))
    return pins


def inherit(  # noqa: PLR0913 - the options of the command
    table: str,
    sources: Iterable[Pin | str],
    *,
    name: str,
    time_of: str,
    delay_ms: int = 0,
    static: Sequence[str] = (),
    at: int | None = None,
) -> Inheritance:
    """Commit the claim that a table inherits from the sources of the job that has written it.

    The table is complete to the least time of the sources' claims at their pins, less `delay_ms`.
    The job must leave the table as if it had read the pinned versions anew.

    - `sources`: the results of `pin`, from before the job.
    - `time_of`: the column of the table that the times are about.
    - `static`: the URLs of sources whose changes do not affect completeness.
    - `at`: the version that the job wrote, by default the current one.

    Raises as `standing`. Raises `Rejected` if a source has no claim at its pin or may have changed
    since, if the table was changed after `at`, and for a wrong name or column. Raises `Conflict` if
    another commit came first.
    """
    validate_name("table claim", name)
    if name in RESERVED_NAMES:
        raise Rejected(f"the name {name!r} is reserved: choose another name for the claim")
    check_least("delay_ms", delay_ms, 0)
    if time_of.endswith("window.start") and not delay_ms:
        raise Rejected(WINDOW_START.format(time_of))
    static_urls = {make_absolute(source) for source in static}
    histories = {}
    for source_pin in _parse_pins(sources):
        if source_pin.table not in static_urls:
            histories[source_pin] = open_history(source_pin.table)
    if not histories:
        raise Rejected(f"{table} inherits nothing: name a source with a claim")
    written_table = LoadedTable(table)
    written_table.check_column(time_of)
    history = written_table.history
    record = build_inheritance(table, history, name, time_of, histories, delay_ms=delay_ms, at=at)
    former_status = history.statuses().get(name)
    former_complete_to = None if former_status is None else former_status.complete_to
    if record.id:
        return Inheritance(record, former_complete_to, is_repeated=True)
    record = replace(record, id=token_hex(8))
    written_table.append_nothing(format_properties(history, record))
    return Inheritance(record, former_complete_to)


def _parse_pins(sources: Iterable[Pin | str]) -> list[Pin]:
    """Return the pins of sources, with absolute URLs."""
    pins = []
    for source in sources:
        source_pin = source
        if not isinstance(source_pin, Pin):
            source_pin = Pin.parse(source_pin)
        pins.append(replace(source_pin, table=make_absolute(source_pin.table)))
    return pins
