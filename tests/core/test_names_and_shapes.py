"""Wire shapes, legal names and settings."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import ValidationError

from noted_time import InvalidName, Mark, Rejected, StreamCut
from noted_time.client import note_to_wire, position_from_wire, position_to_wire
from noted_time.kafka.noted_topic import NotedRecord
from noted_time.values import LateRows, Note, StreamSettings, validate_name
from tests.support.http import as_json, read_json

int64 = st.integers(1 - 2**63, 2**63 - 1)
offsets = st.integers(0, 2**63 - 1)
positions = st.dictionaries(offsets, offsets, max_size=4)
letters = "AZaz09._-"


def is_no_path(word: str) -> bool:
    return word not in {".", ".."}


words = st.text(letters, min_size=1, max_size=12).filter(is_no_path)
names = words | st.just("-" * 249)
marks = st.builds(
    Mark,
    seq=st.integers(1, 2**63 - 1),
    lower=int64,
    upper=int64,
    cut=positions.map(StreamCut),
    written_at=int64,
    excluded=st.lists(names, max_size=2).map(tuple),
)


@given(position=positions)
def test_a_position_survives_the_wire(position: dict[int, int]) -> None:
    """Segment ids travel as decimal strings."""
    assert position_from_wire(position_to_wire(position)) == position


@given(mark=marks)
def test_a_mark_survives_the_wire(mark: Mark) -> None:
    """Cut, times and names."""
    assert read_json(Mark, as_json(mark)) == mark


@given(mark=marks, missing=st.sampled_from(("seq", "lower", "upper", "cut")))
def test_a_mark_without_a_field_is_rejected_by_name(mark: Mark, missing: str) -> None:
    wire = as_json(mark)
    del wire[missing]

    with pytest.raises(ValidationError, match=f"missing required field `{missing}`"):
        read_json(Mark, wire)


SPELLINGS = ("", "-1", "+1", "01", "1.0", " 1", "1e3", "¹", "٣", "x")
INVALID_POSITIONS = [
    *((segment, 1, "is not a decimal integer") for segment in SPELLINGS),
    *(("7", each, "offset of segment 7 is not an integer") for each in ("1", 1.0, True, None, [1])),
    *((*each, "is not .*from 0 to") for each in (("0", -1), ("0", 2**63), (str(2**63), 0))),
]


@pytest.mark.parametrize(("segment", "offset", "says"), INVALID_POSITIONS)
def test_invalid_position_is_rejected(segment: str, offset: object, says: str) -> None:
    """Each segment has one spelling, and numbers are int64 from 0 on."""
    with pytest.raises(Rejected, match=says):
        position_from_wire({segment: offset})


def test_a_note_travels_without_empty_fields() -> None:
    """A time of 0 is information."""
    bare = note_to_wire(Note("UA"))
    late = LateRows(3, 5)
    full = note_to_wire(Note("UA", 0, {3: 1}, "ship", 0, "live", 1, ("ship",), None, late))

    assert (bare, full) == (
        {"writer": "UA", "state": "live"},
        {
            "writer": "UA",
            "state": "live",
            "position": {"3": 1},
            "time": 0,
            "domain": "ship",
            "max_time": 0,
            "sequence": 1,
            "domains": ("ship",),
            "timeout_ms": None,
            "late_rows": {"rows": 3, "min_time": 5},
        },
    )


@given(name=names)
def test_a_legal_name_is_kept(name: str) -> None:
    assert validate_name("stream", name) == name


@pytest.mark.parametrize("name", ["", "a" * 250, "a b", "a/b", "a\n", "ä", "٣", ".", ".."])
def test_an_illegal_name_is_named_in_the_error(name: str) -> None:
    with pytest.raises(InvalidName) as error:
        validate_name("stream", name)

    assert (error.value.what, error.value.name) == ("stream", name)


@pytest.mark.parametrize("domains", [(), ("a", "a"), ("a", ""), ("a b",)])
def test_domains_are_one_or_more_different_names(domains: tuple[str, ...]) -> None:
    with pytest.raises(Rejected):
        StreamSettings(domains=domains)


@pytest.mark.parametrize(
    ("domains", "meant"), [(("ship",), "ship"), (("order", "default"), "default")]
)
def test_unnamed_domain_is_the_only_or_default_one(domains: tuple[str, ...], meant: str) -> None:
    settings = StreamSettings(domains=domains)

    assert (settings.domain_or_default(None), settings.domain_or_default("x")) == (meant, "x")


@given(mark=marks, missing=st.sampled_from(["stream", "stream_id", "domain", "topic_id", "lower"]))
def test_a_record_of_the_noted_topic_is_whole_or_refused(mark: Mark, missing: str) -> None:
    record = NotedRecord("flights", "9f", "default", None, mark)
    wire = json.loads(record.value)
    del wire[missing]

    assert NotedRecord.read(record.value) == record
    for value in (None, b"hello", b"[1]", b"\xff", b"[" * 100_000, json.dumps(wire).encode()):
        with pytest.raises(Rejected, match="no relay has written"):
            NotedRecord.read(value)
