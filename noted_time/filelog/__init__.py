"""Finds the files of file logs, and of archives in their layout."""

from noted_time.filelog.directories import LogDirectories, SegmentDirectory
from noted_time.filelog.layout import (
    UnreadableFile,
    file_name,
    is_hidden,
    parse_start,
    segment_directory,
    start_of,
)
