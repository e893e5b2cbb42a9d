"""The membership of a writer in one domain: one value, which is stored as it is.

A writer whose first counting mark is still to come has not joined yet for the marks before it.
So a mark changes the membership only of the writers that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from noted_time.values import (
    FROM_FIRST_MARK,
    Absence,
    Exclusion,
    MemberStatus,
    MissingReason,
    Spell,
)

Effect = Literal["here", "absent", "missing"]
"""How a change of the status affects the next marks.

- `here`: they do not lack the member.
- `absent`: the first mark above its time names the member; of a removed one the next mark.
- `missing`: as `absent` if the last mark lacks the member, or would have to name it.
"""

TRANSITION_TABLE = """
from           counted idle finished timed_out removed returned_below narrowed not_joined sealed
not_joined     here    here here     absent    here    ·              absent   ·          ·
counted        ·       here here     absent    absent  absent         absent   here       absent
idle           here    ·    here     ·         missing ·              absent   here       ·
finished       here    here ·        ·         missing ·              absent   here       ·
timed_out      here    here here     ·         missing ·              ·        ·          ·
removed        here    here here     ·         ·       ·              ·        ·          ·
returned_below here    here here     absent    absent  ·              absent   here       absent
narrowed       here    here here     ·         ·       ·              ·        here       ·
"""
"""The effect of each change of the status. A dot marks a change that does not occur."""

NO_CHANGE = "·"


def parse_transitions(table: str) -> Mapping[tuple[str, str], Effect]:
    """Return the effect of each pair of statuses in a table.

    >>> STATUS_EFFECTS["counted", "timed_out"], STATUS_EFFECTS["timed_out", "counted"]
    ('absent', 'here')
    """
    (_, *columns), *changes = (row.split() for row in table.strip().splitlines())
    effects: dict[tuple[str, str], Effect] = {}
    for before, *cells in changes:
        for after, effect in zip(columns, cells, strict=True):
            if effect != NO_CHANGE:
                effects[before, after] = effect  # type: ignore[assignment]
    return effects


STATUS_EFFECTS = parse_transitions(TRANSITION_TABLE)

ABSENT_STATUSES = frozenset({"timed_out", "removed", "returned_below", "narrowed"})
"""The statuses of a member that marks advance without."""


class ReportedAbsence(Struct, frozen=True, omit_defaults=True):
    """An absence that mark `seq` named, until a mark counts the writer again.

    `Absence` has the meaning of the other fields.
    """

    seq: int
    reason: MissingReason
    began_at: int | None = None
    last_time: int | None = None
    from_time: int | None = None

    def name_writer(self, writer: str) -> Absence:
        return Absence(writer, self.reason, self.began_at, self.last_time, from_time=self.from_time)


class Membership(Struct, frozen=True, omit_defaults=True):
    """The status of a writer in one domain, and when marks count it.

    - `spells`: the last two during which marks count the writer.
    - `reason`: why it was excluded or narrowed last. It stays until the writer has caught up.
    - `began_at`: when this began (Unix ms).
    - `is_unreported`: whether a mark has still to name its absence.
    - `reported`: its absence as a mark named it, until a mark counts it again.
    - `joined_after_seq`: the last seq when the writer became a member, 0 before any mark.
    - `widened_at`: when it began to vouch for the domain, if it was a member before (Unix ms).
    - `first_time`: the time of its first note, if this was below the lower.
    - `from_time`: the least time of its rows, if its first note stated it before a mark counted it.
    - `removed_spell`: the spell that a removal ended, to the writer's last time. It goes on if the
      writer's next time is not below that.
    """

    status: MemberStatus = "counted"
    spells: tuple[Spell, ...] = FROM_FIRST_MARK
    reason: MissingReason | None = None
    began_at: int | None = None
    is_unreported: bool = False
    reported: ReportedAbsence | None = None
    joined_after_seq: int = 0
    widened_at: int | None = None
    first_time: int | None = None
    from_time: int | None = None
    removed_spell: Spell | None = None

    @property
    def is_absent(self) -> bool:
        return self.status in ABSENT_STATUSES

    @property
    def exclusion(self) -> Exclusion | None:
        """Why it was excluded, as answers to its notes say it."""
        if self.reason is None or self.reason == "narrowed":
            return None
        return Exclusion(self.reason, self.began_at or 0)  # type: ignore[arg-type]

    @property
    def vouched_to(self) -> int | None:
        """The time to which the writer vouched, if it started again since."""
        ends = (spell.to_time for spell in self.spells)
        return next((end for end in ends if end is not None), None)

    def change(
        self, status: MemberStatus, began_at: int | None = None, *, is_missing: bool = False
    ) -> Membership:
        """Return the membership with another status, which began at `began_at` (Unix ms).

        >>> out = Membership().change("timed_out", 7)
        >>> out.is_unreported, out.exclusion
        (True, Exclusion(reason='timed_out', excluded_at=7, lower=UNSET))
        >>> back = out.change("counted")
        >>> back.is_unreported, back.reason, back.change("idle").reason
        (False, 'timed_out', None)
        """
        effect = STATUS_EFFECTS[self.status, status]
        reason: MissingReason | None = self.reason
        reason_began_at = self.began_at
        if status == "returned_below":
            if self.exclusion is None:
                reason = "returned_below"
                reason_began_at = began_at
        elif status in ABSENT_STATUSES:
            reason = status  # type: ignore[assignment]
            reason_began_at = began_at
        elif status != "counted" or reason == "narrowed":
            reason = reason_began_at = None
        return replace(
            self,
            status=status,
            reason=reason,
            began_at=reason_began_at,
            is_unreported=effect == "absent" or (effect == "missing" and is_missing),
        )

    def report(self, absence: Absence, seq: int) -> Membership:
        """Return the membership once mark `seq` has named the absence.

        >>> Membership().change("timed_out", 7).report(Absence("UA", "timed_out", 7, 5), 2).reported
        ReportedAbsence(seq=2, reason='timed_out', began_at=7, last_time=5, from_time=None)
        """
        reported_absence = self.reported
        if absence.reason == "removed":
            reported_absence = None
        elif reported_absence is None or absence.reason == "narrowed":
            from_time = None
            if isinstance(absence.from_time, int):
                from_time = absence.from_time
            reported_absence = ReportedAbsence(
                seq, absence.reason, absence.began_at, absence.last_time, from_time
            )
        return replace(self, is_unreported=False, reported=reported_absence)


ALWAYS_COUNTED = Membership()
"""The membership of most writers, which is not stored."""

ALWAYS_FINISHED = Membership("finished")
"""The membership of a writer that finished without an absence, which is not stored."""

NOT_JOINED = Membership("not_joined", spells=())

ABSENT_AT_FIRST = Membership("timed_out", spells=(), is_unreported=True)
"""The membership of a writer that had timed out when the domain was added."""
