"""The leases of a store to which one process writes: there is one bucket, always its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from controller.store.port import Leases

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from controller.store.notices import Notice
    from controller.store.port import Reading

LEASES = Leases(buckets=1, mine=frozenset((0,)))


class SingleNodeLeases:
    """The part of a `Store` that concerns other controllers, where there are none."""

    local = True

    def register(self, url: str) -> None:
        """Do nothing: no other controller asks for the URL."""

    def heartbeat(self) -> Leases:
        """Return that the bucket is this store's."""
        return LEASES

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]:
        """Acquire nothing: no bucket is ever free."""
        return LEASES.free & frozenset(buckets)

    def release(self, buckets: Iterable[int]) -> None:
        """Keep the bucket."""

    def leave(self) -> None:
        """Keep the bucket."""

    @property
    def reading(self) -> Reading:
        """The store itself: nobody else writes."""
        return cast("Reading", self)

    async def listen(self) -> AsyncGenerator[Notice]:
        """Yield nothing: nobody sends notices."""
        none: tuple[Notice, ...] = ()
        for notice in none:
            yield notice
