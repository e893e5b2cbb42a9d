"""Where Alembic's commands run: in the connection of `migrate`, or in a database that they name.

On the command line that is ``alembic -x database=URL check``, or ``NOTED_TIME_DATABASE``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from alembic import context

from controller.store.migrate import engine_to_migrate
from controller.store.schema import metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection


def run(connection: Connection) -> None:
    """Run the command in the transaction of the connection, or in one of its own."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=True,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def run_in_named_database() -> None:
    """Run the command in the database of ``-x database=URL`` or the environment."""
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
