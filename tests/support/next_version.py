"""A made-up later version, with a migration that this version does not know."""

import shutil
import subprocess
import sys
from pathlib import Path

from controller.store.schema import SCHEMA_REVISION
from tests.support.processes import ROOT, environment

NEXT = "9000"
PACKAGES = ("controller", "migrations", "noted_time", "noted_time_cli")

MIGRATION = f'''
"""Add what code of {SCHEMA_REVISION} knows nothing of."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{SCHEMA_REVISION}"
oldest_code = "{{oldest}}"


def upgrade():
    """Add a table, a column that may be null, and one with a default of the server."""
    op.create_table("colour", sa.Column("name", sa.Text, primary_key=True))
    for table in ("noted_time_member", "noted_time_mark", "noted_time_replica"):
        op.add_column(table, sa.Column("colour", sa.Text))
        op.add_column(table, sa.Column("shade", sa.Text, nullable=False, server_default="grey"))
'''


class NextVersion:
    """Its packages in a directory; code from the revision `oldest` on takes its tables."""

    def __init__(self, code: Path, *, oldest: str = SCHEMA_REVISION) -> None:
        for package in PACKAGES:
            without = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, code / package, ignore=without)
        shutil.copy(ROOT / "pyproject.toml", code)
        schema = code / "controller" / "store" / "schema.py"
        text = schema.read_text()
        this_line, next_line = (
            f'\nSCHEMA_REVISION = "{revision}"' for revision in (SCHEMA_REVISION, NEXT)
        )
        schema.write_text(text.replace(this_line, next_line))
        assert schema.read_text() != text
        self.code = code
        self.migrations = code / "migrations"
        migration = self.migrations / "versions" / f"{NEXT}_colours.py"
        migration.write_text(MIGRATION.format(oldest=oldest))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python with its packages."""
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.code,
            env=environment(PYTHONPATH=str(self.code)),
            capture_output=True,
            text=True,
            check=False,
        )

    def migrate(self, url: str) -> None:
        process = self.run("-m", "controller", "migrate", "--database", url)
        assert process.returncode == 0, process.stderr
