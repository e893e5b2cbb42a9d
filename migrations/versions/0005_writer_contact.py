"""Keep the contacts of writers, which older code would drop."""

from __future__ import annotations

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

oldest_code = "0005"


def upgrade() -> None:
    """No table changes."""
