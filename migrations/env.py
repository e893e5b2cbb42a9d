"""Runs Alembic's commands in the connection of `migrate`, or in a given database.

On the command line, give it by ``alembic -x database=URL check`` or ``NOTED_TIME_DATABASE``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from alembic import context

from controller.store.migrate import engine_to_migrate
from controller.store.schema import VERSION_TABLE, compatible, metadata

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext, MigrationInfo
    from sqlalchemy import Connection


def record_oldest_code(
    ctx: MigrationContext, step: MigrationInfo, heads: object, run_args: object
) -> None:
    """Record a migration's `oldest_code`, for controllers that do not have its file."""
    del heads, run_args
    oldest = getattr(getattr(step.up_revision, "module", None), "oldest_code", None)
    if oldest is not None and ctx.connection is not None:
        row = compatible.insert().values(revision=step.up_revision_id, oldest=oldest)
        ctx.connection.execute(row)


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        render_as_batch=True,
        transactional_ddl=True,
        on_version_apply=record_oldest_code,
    )
    with context.begin_transaction():
        context.run_migrations()


def run_in_named_database() -> None:
    arguments = context.get_x_argument(as_dictionary=True)
    url = arguments.get("database") or os.environ.get("NOTED_TIME_DATABASE")
    if not url:
        raise SystemExit("name the database: alembic -x database=sqlite:///path/to/file.db …")
    engine = engine_to_migrate(url)
    with engine.connect() as connection:
        run(connection)
    engine.dispose()


given = context.config.attributes.get("connection")
if given is None:
    run_in_named_database()
else:
    run(given)
