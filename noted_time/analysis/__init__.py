"""Finds the last mark without a row, and whether its writer had vouched.

Needs numpy (the extra `analyse`).
"""

from __future__ import annotations

from noted_time.analysis.promises import (
    BROKEN_VERDICT,
    IDLE_VERDICT,
    UNKNOWN_VERDICT,
    NotedMarks,
    Owners,
    WriterPromise,
    group_rows,
)
