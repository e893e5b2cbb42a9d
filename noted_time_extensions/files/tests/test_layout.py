"""The names of files and directories of a file log."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time_extensions.files.layout import file_name, segment_directory, segment_of, start_of
from tests.core.test_names_and_shapes import names, offsets


@given(stream=names, segment=offsets, start=offsets)
def test_the_start_of_a_file_is_in_its_name(stream: str, segment: int, start: int) -> None:
    """Stream names may look like a suffix."""
    assert start_of(file_name(stream, segment, start), stream, segment) == start


@given(stream=names, segment=offsets)
def test_the_segment_of_a_directory_is_in_its_name(stream: str, segment: int) -> None:
    assert segment_of(segment_directory(Path(), stream, segment).name) == segment


@given(starts=st.lists(st.integers(0, 10**10 - 1), max_size=5))
def test_file_names_sort_as_their_offsets_do(starts: list[int]) -> None:
    in_order = [file_name("flights", 3, start) for start in sorted(starts)]

    assert sorted(in_order) == in_order


FOREIGN_FILES = """
    flights+4+0000000000.parquet other+3+0000000000.parquet flights-3-0000000000.parquet
    flights+3+0000000000.parquet.tmp flights+3+0000000000.avro flights+3+0000000000.a.b.parquet
    flights+03+0000000000.parquet flights+3+-000000001.parquet flights+3+٣٣٣٣٣٣٣٣٣٣.parquet
    flights+3+0000000000+.parquet flights+3+9223372036854775808.parquet
    .flights+3+0000000000.parquet
"""


FOREIGN_DIRECTORIES = (
    "partition= partition=-1 partition=x partition=03 partition=٣ x=3 partition=3.tmp"
)


@pytest.mark.parametrize("name", ["", *FOREIGN_FILES.split()])
def test_a_foreign_file_has_no_start(name: str) -> None:
    assert start_of(name, "flights", 3) is None


@pytest.mark.parametrize("name", FOREIGN_DIRECTORIES.split())
def test_a_foreign_directory_is_not_a_segment(name: str) -> None:
    assert segment_of(name) is None
