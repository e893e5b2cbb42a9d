"""Finds the files of file logs, and of archives in their layout."""

from noted_time.filelog.directories import LogDirectories, SegmentDirectory
from noted_time.filelog.layout import (
    APPEND_KEY,
    ForeignFile,
    UnreadableFile,
    explain_damage,
    file_name,
    segment_directory,
    start_of,
)
