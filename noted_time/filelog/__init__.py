"""File logs: the names of their files, their directories, and which archives are file logs."""

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
