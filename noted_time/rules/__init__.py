"""Rules: how the notes of a stream's writers become its marks."""

from noted_time.rules.aggregator import Aggregator
from noted_time.rules.decisions import (
    EXCLUSIONS_NAMED,
    FORESEEN,
    HOLDERS_NAMED,
    Forecast,
    Would,
    forecast,
    lower_without,
)
from noted_time.rules.seal import Seal, SealRequest
from noted_time.rules.state import Member, MemberRecord, Standing, Track, absence_of
