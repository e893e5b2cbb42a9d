"""Lists of an object store that begin behind a known key miss nothing."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time.stores import Version, object_listing
from noted_time.stores.object_listing import WHOLE_AGAIN_S, ObjectListing
from noted_time_extensions.files.layout import file_name, sort_by_offset

CAN_RESUME = partial(sort_by_offset, stream="a", segment=0)


class Segment:
    """The names of a segment, and where each list of them began."""

    def __init__(self) -> None:
        self.names: dict[str, Version | None] = {}
        self.now_s = 0.0
        self.lists: list[str] = []
        self.listing = ObjectListing(self._list_after, lambda: self.now_s, CAN_RESUME)

    def _list_after(self, name: str) -> dict[str, Version | None]:
        self.lists.append(name)
        files = {}
        for key in sorted(self.names):
            if key > name:
                files[key] = self.names[key]
        return files

    def add(self, name: str, etag: str = "1") -> None:
        self.names[name] = Version(1, etag)

    def look(self) -> dict[str, Version | None]:
        """Return the listed names, and check that an unchanged list is not processed again."""
        changes = [*self.listing.list_changes()]
        files_found = dict(self.listing.list_now())
        assert len(changes) <= 1
        for listed_files in changes:
            assert dict(listed_files) == files_found
        return files_found


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_listing, "PAGE_KEYS", 4)
    monkeypatch.setattr(object_listing, "KNOWN_KEYS", 3)


@given(
    first=st.sampled_from([0, 90_000, 10**9, 9_899_999_000, 10**10 - 10**5, 10**10 - 500, 10**11]),
    course=st.lists(
        st.tuples(st.sampled_from(["add", "replace", "delete", "clear"]), st.integers(1, 400)),
        max_size=30,
    ),
)
def test_every_change_of_the_last_files_is_found(first: int, course: list[tuple[str, int]]) -> None:
    """Offsets get another width, files are deleted, and the log begins again."""
    segment = Segment()
    start = first
    segment.look()
    for happening, number in course:
        if happening == "add":
            start += number
            segment.add(file_name("a", 0, start))
        elif happening == "clear":
            segment.names.clear()
        elif segment.names and happening == "replace":
            segment.add(max(segment.names), etag=str(number))
        elif segment.names:
            del segment.names[max(segment.names)]

        assert segment.look() == segment.names


def test_a_list_begins_behind_known_names() -> None:
    """Each time with a few that are known."""
    segment = Segment()
    names = [file_name("a", 0, start) for start in range(0, 60, 10)]
    for name in names:
        segment.add(name)
        segment.look()

    assert segment.lists[-1] == names[3]
    assert "" not in segment.lists[-4:]


@pytest.mark.parametrize("is_asked", [True, False])
def test_the_whole_list_is_fetched_again_after_minutes(*, is_asked: bool) -> None:
    """A caller can request it, too. Writers may have changed the form of their names."""
    segment = Segment()
    for start in range(5):
        segment.add(file_name("a", 0, start))
    segment.look()
    segment.add("a+0+000000000099.parquet")
    is_missed = segment.look() != segment.names
    if is_asked:
        segment.listing.forget()
    segment.now_s += 0 if is_asked else WHOLE_AGAIN_S

    assert (is_missed, segment.look() == segment.names) == (True, True)


@pytest.mark.parametrize(
    "names",
    [
        ["a+0+0000000000+0000000009.parquet", "a+0+0000000010+0000000019.parquet"],
        ["a+0+0.parquet", "a+0+10.parquet"],
        ["a+0+9990000000.parquet"],
        [],
    ],
)
def test_other_names_are_listed_whole(names: list[str]) -> None:
    """Those with two offsets, of several widths, and near the next width."""
    assert not CAN_RESUME(names)
