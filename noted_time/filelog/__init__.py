"""Finds the files of file logs, and recognises archives that are file logs."""

from noted_time.filelog.directories import LogDirectories, SegmentDirectory
from noted_time.filelog.layout import (
    FILE_SUFFIX,
    UnreadableFile,
    file_name,
    is_hidden,
    parse_start,
    segment_directory,
    start_of,
)
