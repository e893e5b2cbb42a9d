"""What a delay costs on a log as it came in: rows lost and waits, for all delays at once.

Needs numpy, which comes with the extra `analyse`.
"""

from __future__ import annotations

from noted_time.analysis.curves import *
