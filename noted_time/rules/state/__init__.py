"""What a stream remembers of its writers: members, queues of them by time, segments, the cut."""

from noted_time.rules.state.member import (
    BEFORE_ALL_TIME,
    Census,
    Lead,
    Member,
    MemberRecord,
    Role,
    Standing,
    Track,
    record_of,
)
from noted_time.rules.state.queues import (
    SLICE,
    Absences,
    Ahead,
    Departures,
    Timeouts,
    absence_of,
)
from noted_time.rules.state.running_cut import RunningCut
from noted_time.rules.state.segments import LARGEST_FIRST_OFFSET, NOT_NAMED, KnownSegments, Sharing
