"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None

# the oldest revision whose code works with these tables, see 0001
oldest_code = ...


def upgrade() -> None:
    """${message}."""
    ${upgrades if upgrades else "pass"}
