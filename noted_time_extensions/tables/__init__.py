"""Checks how far Delta and Iceberg tables are complete, by the claims in their commits.

Names are imported on first use, as each start of `noted-time` imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extending import import_lazily

if TYPE_CHECKING:
    from noted_time_extensions.tables.checks import accept as accept
    from noted_time_extensions.tables.checks import complete_to as complete_to
    from noted_time_extensions.tables.checks import since_claims as since_claims
    from noted_time_extensions.tables.checks import standing as standing
    from noted_time_extensions.tables.history_rows import history_of as history_of
    from noted_time_extensions.tables.inheriting import Inheritance as Inheritance
    from noted_time_extensions.tables.inheriting import inherit as inherit
    from noted_time_extensions.tables.inheriting import pin as pin
    from noted_time_extensions.tables.pins import Pin as Pin
    from noted_time_extensions.tables.spark.claims import TableClaims as TableClaims
    from noted_time_extensions.tables.spark.table import NotedTable as NotedTable
    from noted_time_extensions.tables.table_history import NoClaim as NoClaim
    from noted_time_extensions.tables.table_history import TableClaim as TableClaim
    from noted_time_extensions.tables.table_history import TableHistory as TableHistory

LAZY_IMPORTS = {
    "Inheritance": ("inheriting", ""),
    "NoClaim": ("table_history", ""),
    "NotedTable": ("spark.table", "spark"),
    "Pin": ("pins", ""),
    "TableClaim": ("table_history", ""),
    "TableClaims": ("spark.claims", "spark"),
    "TableHistory": ("table_history", ""),
    "accept": ("checks", ""),
    "complete_to": ("checks", ""),
    "history_of": ("history_rows", ""),
    "inherit": ("inheriting", ""),
    "pin": ("inheriting", ""),
    "since_claims": ("checks", ""),
    "standing": ("checks", ""),
}

__all__ = list(LAZY_IMPORTS)


def __getattr__(name: str) -> object:
    names = {
        public_name: (f"{__name__}.{module}", extra)
        for public_name, (module, extra) in LAZY_IMPORTS.items()
    }
    return import_lazily(__name__, names, name)
