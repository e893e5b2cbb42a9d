"""What a delay, or the marks of a stream, cost on a log as it came in: rows lost, and waits.

Needs numpy, which comes with the extra `analyse`.
"""

from __future__ import annotations

from noted_time.analysis.curves import *
from noted_time.analysis.promises import *
