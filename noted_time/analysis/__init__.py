"""The cost of a delay, or of the marks of a stream, on a recorded log: lost rows and waits.

Needs numpy (the extra `analyse`).
"""

from __future__ import annotations

from noted_time.analysis.curves import *
from noted_time.analysis.promises import *
