"""The stored offsets of a source with marks."""

import json

from hypothesis import given
from hypothesis import strategies as st

from noted_time.reading import WholeFrom
from spark_integration.marks.offset import MarkAhead, NotedOffset, StreamFacts, StreamOffset
from spark_integration.marks.released import Released
from spark_integration.marks.time_range import TimeRange
from spark_integration.marks.watermark import FIRST_MS, LAST_MS

TIMES = st.none() | st.integers(FIRST_MS + 1, LAST_MS)
POSITIONS = st.dictionaries(st.integers(0, 12), st.integers(0, 2**63 - 1), max_size=3)
READ = st.builds(
    StreamOffset,
    st.builds(Released, lower=TIMES),
    POSITIONS,
    ahead=st.lists(st.builds(MarkAhead, needs=POSITIONS), max_size=2).map(tuple),
    facts=st.builds(StreamFacts, whole=st.none() | st.builds(WholeFrom, st.none() | POSITIONS)),
)
OFFSETS = st.builds(
    NotedOffset,
    st.dictionaries(st.sampled_from(["flights", "landings"]), READ),
    times=st.builds(TimeRange, TIMES, TIMES),
    begin=POSITIONS,
)


@given(OFFSETS)
def test_offset_survives_its_json_text(offset: NotedOffset) -> None:
    """It keeps its facts, although a change of facts alone makes no batch."""
    read = NotedOffset.from_json(json.loads(json.dumps(offset.to_json())))

    facts = [{n: of.facts for n, of in each.streams.items()} for each in (read, offset)]
    assert (read, facts[0]) == (offset, facts[1])
