"""Rules that turn the notes of a stream into its marks."""

from noted_time.rules.aggregator import Aggregator
from noted_time.rules.decisions import HOLDING_BACK_NAMED, forecast, lower_without
from noted_time.rules.domain import Domain
from noted_time.rules.member import Member, MemberRecord, Track
from noted_time.rules.membership import Membership, ReportedAbsence
from noted_time.rules.roster import Named, absence_of, merge_named
from noted_time.rules.seal import SLICE_SIZE, Seal, SealRequest, Slices, split_slices
