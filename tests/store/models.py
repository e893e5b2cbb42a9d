"""Whether a migrated database has the tables of the schema."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from controller.store.migrate import check, engine_to_migrate
from controller.store.schema import metadata


def check_models(url: str) -> None:
    """Raise `AssertionError` if a migrated database differs from the tables of `schema`."""
    check(url)
    engine = engine_to_migrate(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        differences = compare_metadata(context, metadata)
    engine.dispose()
    assert not differences, f"migrations and schema differ: {differences}"
