"""The schemes of datasets that a feature opens, and where its function is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Scheme(NamedTuple):
    """What begins the names of a feature's datasets.

    `opener` is ``module:function``. It is imported only when such a dataset is opened.
    """

    kind: str
    opener: str


TABLE_SCHEME = Scheme("table", "reader_client.tables.table_dataset:open_table")

FEATURE_SCHEMES: Mapping[str, Scheme] = {"delta": TABLE_SCHEME, "iceberg": TABLE_SCHEME}


def find_scheme(name: str) -> Scheme | None:
    """Return the scheme of a dataset's name, `None` if no feature opens it.

    >>> find_scheme("delta:/lake/gold").kind, find_scheme("delta"), find_scheme("s3://lake/state")
    ('table', None, None)
    """
    scheme, colon, _ = name.partition(":")
    return FEATURE_SCHEMES.get(scheme) if colon else None
