"""Applies scale events to the known positions."""

from __future__ import annotations

from collections.abc import Mapping

from noted_time.rules.member import Member
from noted_time.rules.members import Domains
from noted_time.values import ScaleEvent, Succession, find_gained


def apply_scale(domains: Domains, succession: Succession, event: ScaleEvent) -> None:
    members = domains.members.values()
    domains.segments.scale(event, succession, members)
    for segment in event.created:
        implied_offsets = succession.normalise({segment: 0})
        for member in members:
            if segment in member.position:
                _complete_predecessors(domains, member, implied_offsets)
        for domain in domains:
            domain.cut.complete(implied_offsets, frozenset((segment,)))


def _complete_predecessors(
    domains: Domains, member: Member, implied_offsets: Mapping[int, int]
) -> None:
    new_offsets = find_gained(implied_offsets, member.position)
    if member.adds_rows((), new_offsets):
        for domain, track in domains.list_tracks(member):
            domain.record_undeclared(track)
    member.position.update(new_offsets)
    domains.segment_writers.record_writer(member, new_offsets)
