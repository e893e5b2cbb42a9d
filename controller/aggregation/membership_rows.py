"""The stored memberships of a stream, completed by its ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from controller.store.records import StoredMembership
from noted_time.rules import Membership
from noted_time.values import Absence


class MembershipRows:
    """Rows of memberships. The entries of the ledger complete them, one after the other.

    If a mark names many writers, their rows are written after it. Until then, the mark's entry in
    the ledger is the only record of the change. `completed` has the writers of such rows by domain.

    >>> out = Membership().change("timed_out", 7)
    >>> rows = MembershipRows([StoredMembership("s", "default", "UA", out, seq=1)])
    >>> rows.complete("default", 2, [Absence("UA", "timed_out", 7, 5)], ())
    >>> rows.memberships["UA"]["default"].reported.seq, dict(rows.completed)
    (2, {'default': {'UA'}})
    """

    def __init__(self, rows: Iterable[StoredMembership]) -> None:
        self.memberships: defaultdict[str, dict[str, Membership]] = defaultdict(dict)
        self.completed: defaultdict[str, set[str]] = defaultdict(set)
        self._seqs: dict[tuple[str, str], int] = {}
        for row in rows:
            self.memberships[row.writer][row.domain] = row.membership
            if row.seq is not None:
                self._seqs[row.domain, row.writer] = row.seq

    def complete(
        self, domain: str, seq: int, absences: Iterable[Absence], returned_writers: Iterable[str]
    ) -> None:
        """Complete the rows of the named writers that are older than the entry of mark `seq`."""
        for writer in returned_writers:
            if self._is_earlier(domain, writer, seq):
                self._change(domain, writer, replace(self._find(domain, writer), reported=None))
        for absence in absences:
            writer = absence.writer
            if not absence.joined_later and self._is_earlier(domain, writer, seq):
                self._change(domain, writer, self._find(domain, writer).report(absence, seq))

    def _is_earlier(self, domain: str, writer: str, seq: int) -> bool:
        stored_seq = self._seqs.get((domain, writer))
        return stored_seq is not None and stored_seq < seq

    def _find(self, domain: str, writer: str) -> Membership:
        return self.memberships[writer][domain]

    def _change(self, domain: str, writer: str, membership: Membership) -> None:
        self.memberships[writer][domain] = membership
        self.completed[domain].add(writer)
