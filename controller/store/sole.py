"""The leases of a store that has its database for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from controller.store.port import Leases

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from controller.store.notices import Notice
    from controller.store.port import Reading

ALONE = Leases(buckets=1, mine=frozenset((0,)))
"""All streams fall into one bucket, which is always its own."""


class Sole:
    """Part of a `Store`: nobody else takes the bucket, nor would anybody be told of it."""

    local = True

    def enter(self, url: str) -> None:
        """Tell nobody."""

    def look(self) -> Leases:
        """Return that the bucket is this store's."""
        return ALONE

    def take(self, buckets: Iterable[int]) -> frozenset[int]:
        """Take nothing: no bucket is ever free."""
        return ALONE.free & frozenset(buckets)

    def give(self, buckets: Iterable[int]) -> None:
        """Keep the bucket."""

    def leave(self) -> None:
        """Keep the bucket: nobody else wants it."""

    @property
    def reading(self) -> Reading:
        """The store itself: nobody else writes."""
        return cast("Reading", self)

    async def listen(self) -> AsyncGenerator[Notice]:
        """Yield nothing: there is nobody to tell."""
        none: tuple[Notice, ...] = ()
        for notice in none:
            yield notice
