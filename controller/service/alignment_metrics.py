"""The series of alignments in a scrape: who is counted, the drift, the bound."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, get_args

from prometheus_client.core import GaugeMetricFamily

from noted_time.wing import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.aggregation.alignments import Alignments

ALIGNMENTS_SHOWN = 1000


class AlignmentReading:
    """The alignments of one controller as they were when they were read."""

    def __init__(self, alignments: Alignments, service_ms: int) -> None:
        """Copy the reports, 0.1 ms for a thousand; the rest may be done in another thread."""
        shown = islice(alignments, ALIGNMENTS_SHOWN)
        self._alignments = [(name, each.copy()) for name, each in shown]
        self._service_ms = service_ms

    def families(self) -> Sequence[GaugeMetricFamily]:
        """Return the series; an alignment of which nobody is counted has no drift and no bound."""
        sentence = "Members of an alignment that are counted, or why they are not"
        members = _family("members", sentence, "state")
        sentence = "How far members may be ahead of the slowest, in the unit of their times"
        max_drift = _family("max_drift", sentence)
        sentence = "How far the fastest counted member is ahead of the slowest, in the same unit"
        drift = _family("drift", sentence)
        bound = _family("bound", "The time above which no member is to read on")
        for name, alignment in self._alignments:
            now = alignment.at(self._service_ms)
            standings = Counter(each.standing for each in now.members.values())
            for standing in get_args(Standing):
                members.add_metric([name, standing], standings[standing])
            max_drift.add_metric([name], alignment.settings.max_drift)
            if now.drift is not None and now.bound is not None:
                drift.add_metric([name], now.drift)
                bound.add_metric([name], now.bound)
        return members, max_drift, drift, bound


def _family(name: str, sentence: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(
        f"noted_time_alignment_{name}", sentence, labels=("alignment", *labels)
    )
