"""How the places under a limit are shared by the tokens that ask for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Asker(NamedTuple):
    """A caller: the id of its token, empty without one, and whether that may administer."""

    token: str = ""
    is_admin: bool = False

    def has_room(self, most: int, *, taken: int, own: int) -> bool:
        """Whether the asker gets a place, if `taken` of `most` are taken, `own` of them by itself.

        Once three quarters are taken, a token that has a quarter gets no more. An administrator
        always gets one. Without tokens there are no shares.

        >>> greedy, other, admin = Asker("a"), Asker("b"), Asker("c", is_admin=True)
        >>> [greedy.has_room(8, taken=taken, own=taken) for taken in (5, 6)]
        [True, False]
        >>> [other.has_room(8, taken=6 + own, own=own) for own in (0, 1, 2)]
        [True, True, False]
        >>> admin.has_room(8, taken=8, own=0), Asker().has_room(8, taken=7, own=7)
        (True, True)
        """
        if taken >= most:
            return self.is_admin and self.token != "" and own == 0
        return self.token == "" or 4 * taken < 3 * most or 4 * own < most


NOBODY = Asker()


class Shares:
    """The places under one limit, and how many of them each token has."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = Counter[str]()

    def __len__(self) -> int:
        """How many places are taken."""
        return self._taken.total()

    def has_room(self, asker: Asker) -> bool:
        """Whether the asker gets a place."""
        return asker.has_room(self._most, taken=len(self), own=self._taken[asker.token])

    @contextmanager
    def place(self, asker: Asker) -> Iterator[None]:
        """Occupy one of the places meanwhile; `has_room` was called before."""
        self._taken[asker.token] += 1
        try:
            yield
        finally:
            self._taken[asker.token] -= 1
            self._taken += Counter()  # forgets tokens without a place
