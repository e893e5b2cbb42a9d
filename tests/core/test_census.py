"""The count of members by state is that of the members themselves, whatever happened to them."""

from collections import Counter
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from noted_time import Aggregator, Note, StreamSettings
from noted_time.values import State
from tests.support.streams import marks_of, restarted

RETENTION_MS = 20
TIMEOUT_MS = 5

states = st.sampled_from(get_args(State))
notes = st.builds(Note, st.sampled_from("abcd"), st.integers(0, 9), state=states)
histories = st.lists(
    notes | st.sampled_from(["advance", "expire", "forget", "restart"]), max_size=40
)


def counted(stream: Aggregator) -> dict[str, int]:
    """Look at every member."""
    records = map(stream.record, stream.writers())
    found = Counter("excluded" if each.exclusion else each.state for each in records)
    return {state: found[state] for state in stream.domains.census.members}


@given(history=histories)
def test_every_member_is_counted_in_its_state(history: list[Note | str]) -> None:
    """After notes, timeouts, forgetting and a restart."""
    stream = Aggregator(
        StreamSettings(writer_timeout_ms=TIMEOUT_MS, writer_retention_ms=RETENTION_MS)
    )
    for now, act in enumerate(history):
        if isinstance(act, Note):
            stream.note(act, now)
        elif act == "advance":
            marks_of(stream, now=now)
        elif act == "expire":
            stream.expire(now)
        elif act == "forget":
            stream.forget_departed(now, 2)
        else:
            stream = restarted(stream)

    assert stream.domains.census.members == counted(stream)
