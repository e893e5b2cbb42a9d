"""Lists the objects below a prefix, if possible only those behind the last known key.

The whole list is fetched if new keys may sort elsewhere, or if the store's answer contradicts the
known keys. It is also fetched while it has one page, because it costs the same, and every ten
minutes, because writers may change the form of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noted_time.stores.port import CanResume, Names, Seconds, Version

PAGE_KEYS = 1000

KNOWN_KEYS = 10
"""How many known keys are listed again."""

WHOLE_AGAIN_S = 600.0


class ObjectListing:
    """The names below a prefix; `list_after` returns those behind a name, or all of them."""

    def __init__(
        self,
        list_after: Callable[[str], dict[str, Version | None]],
        monotonic: Seconds,
        can_resume: CanResume | None,
    ) -> None:
        self._list_after = list_after
        self._monotonic = monotonic
        self._can_resume = can_resume
        self._names: dict[str, Version | None] = {}
        self._last: list[str] = []
        self._whole_s: float | None = None
        self._is_fetched = False
        self._is_resumable = False
        self._processed: Names | None = None

    def fetch(self) -> None:
        self._update()
        self._is_fetched = True

    def forget(self) -> None:
        self._is_resumable = False

    def list_changes(self) -> Iterator[Names]:
        try:
            names = self.list_now()
        except FileNotFoundError:
            self._processed = None
            raise
        if names is not self._processed:
            yield names
            self._processed = names

    def list_now(self) -> Names:
        if not self._is_fetched:
            self._update()
        self._is_fetched = False
        return self._names

    def _update(self) -> None:
        now_s = self._monotonic()
        is_recent = self._whole_s is not None and now_s - self._whole_s < WHOLE_AGAIN_S
        is_tried = self._is_resumable and is_recent
        if is_tried and self._resume():
            return
        names = self._list_after("")
        if is_tried and names.keys() >= set(self._last):
            self._can_resume = None  # the store lists in another order
        if names != self._names:
            self._names = names
        sorted_names = sorted(names)
        self._last = sorted_names[-KNOWN_KEYS:]
        self._whole_s = now_s
        self._is_resumable = len(names) >= PAGE_KEYS and self._sorts_last(sorted_names)

    def _resume(self) -> bool:
        first_name, *later_names = self._last
        new_names = self._list_after(first_name)
        if not set(later_names) <= new_names.keys() or min(new_names) <= first_name:
            return False
        if any(self._names.get(name) != version for name, version in new_names.items()):
            self._names = {**self._names, **new_names}
            self._last = sorted([first_name, *new_names])[-KNOWN_KEYS:]
            self._is_resumable = self._sorts_last(sorted([first_name, *new_names]))
        return True

    def _sorts_last(self, names: list[str]) -> bool:
        return self._can_resume is not None and self._can_resume(names)
