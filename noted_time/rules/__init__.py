"""Rules: how the notes of a stream's writers become its marks."""

from noted_time.rules.absences import absence_of
from noted_time.rules.aggregator import Aggregator
from noted_time.rules.correction import Correction, CorrectionRequest, corrected
from noted_time.rules.domain import HOLDERS_NAMED
from noted_time.rules.dry_run import Would
from noted_time.rules.member import Track
from noted_time.rules.record import MemberRecord
from noted_time.rules.seal import Seal, SealRequest
