"""Columns of rows, as a real server reads them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from controller.store.arrays import Bigints, Booleans, Texts
from controller.store.postgres import connect
from noted_time.cut import MAX_INT64, MIN_INT64
from tests.support.postgres import binaries

if TYPE_CHECKING:
    from tests.support.postgres import Server

pytestmark = pytest.mark.skipif(not binaries(), reason="needs a PostgreSQL server")


def test_columns_come_back_as_they_were_sent(server: Server) -> None:
    """The smallest and largest values, other scripts, what arrays in text would have to quote."""
    texts = Texts(["", 'a"b\\c,{}', "NULL", "Überlänge ✈", "\n"])
    bigints = Bigints([MIN_INT64, -1, 0, 1, MAX_INT64])
    booleans = Booleans([True, False])
    with closing(connect(server.url())) as session:
        sent = session.execute(
            "SELECT %b::text[], %b::bigint[], %b::bool[]", [texts, bigints, booleans]
        )

        assert sent.fetchone() == (list(texts), list(bigints), list(booleans))
