"""How long no mark was made, and which fault that was."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.chaos.history import Chain, Span

NOTHING, SEVERAL = "(no fault)", "(several at once)"


def longest_gaps(chains: Iterable[Chain], spans: Sequence[Span]) -> dict[str, float]:
    """Return for each kind of fault the longest time, in seconds, without a mark of some chain.

    A gap is told of a fault that lasted while the gap did:

    >>> from tests.chaos.history import Chain, Span
    >>> chain = Chain(grew_at=[0.0, 1.0, 5.0, 5.5])
    >>> longest_gaps([chain], [Span("kill", 2.0, 3.0)])
    {'kill': 4.0, '(no fault)': 1.0}
    """
    longest: dict[str, float] = {}
    for chain in chains:
        for begun, ended in pairwise(chain.grew_at):
            kind = _blamed(begun, ended, spans)
            longest[kind] = max(longest.get(kind, 0.0), ended - begun)
    return dict(sorted(longest.items(), key=lambda each: -each[1]))


def _blamed(begun: float, ended: float, spans: Sequence[Span]) -> str:
    during = [span.kind for span in spans if span.begun < ended and span.ended > begun]
    if not during:
        return NOTHING
    return during[0] if len(during) == 1 else SEVERAL
