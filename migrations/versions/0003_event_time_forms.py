"""Keep how the event times of a stream's log are read, which older code would drop."""

from __future__ import annotations

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

oldest_code = "0003"


def upgrade() -> None:
    """No table changes."""
