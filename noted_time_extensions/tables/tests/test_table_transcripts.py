"""Sessions with tables; their form is in `tests/cli/test_transcripts.py`, and there are more acts.

claim orders 10:00 {"from_time": 5}   a commit to a Delta table has a claim; see `Orders.claim`
append orders                     a commit has none; so does `overwrite orders`
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from noted_time_extensions.tables.tests.support.claimed import ROWS, Orders
from tests.cli.conftest import Commands
from tests.cli.test_transcripts import VERBS, Session, play_session
from tests.support.api_acts import read_time
from tests.support.paragraphs import read_paragraphs
from tests.support.polling import count_polls
from tools.trials.served import Served

SESSIONS: list[Any] = []
for path in sorted(Path(__file__).with_name("transcripts").glob("*.txt")):
    SESSIONS += read_paragraphs(path)
TABLE_VERBS = f"{VERBS}|claim|append|overwrite"


@dataclass(kw_only=True)
class TableSession(Session):
    """A session whose acts write tables, too."""

    orders: Orders
    batches: Iterator[int] = field(default_factory=count)

    def perform(self, act: str) -> None:
        """Perform an act of a paragraph, and compare its output."""
        verb, _, rest = act.partition(" ")
        name, _, arguments = rest.partition(" ")
        if verb == "claim":
            self._claim(*arguments.split(" ", 1))
        elif verb == "append":
            write_deltalake(name, ROWS, mode="append")
        elif verb == "overwrite":
            write_deltalake(name, ROWS, mode="overwrite")
        else:
            super().perform(act)

    def _claim(self, time: str, fields: str = "{}") -> None:
        complete_to = None if time == "none" else read_time(time)
        options = json.loads(fields)
        missing_writers = options.pop("missing_writers", ())
        self.orders.claim(complete_to, next(self.batches), *missing_writers, **options)


@pytest.mark.parametrize("acts", SESSIONS)
def test_transcripts(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: list[str]
) -> None:
    """Each session prints the output that its file shows."""
    monkeypatch.chdir(tmp_path)
    count_polls(monkeypatch)
    session = TableSession(served, Commands(served.url), orders=Orders(tmp_path))
    play_session(session, acts, TABLE_VERBS)
