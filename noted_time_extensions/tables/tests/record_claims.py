"""Record the answers about tables in the random histories of `tests.trials.record`.

Of twenty histories one has a table, whose query claims times of its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from noted_time.values import MIN_INT64
from noted_time_extensions.tables.tests.support.claimed import Orders
from tests.support.asking import ask
from tests.trials.histories import DOMAINS, MINUTE_MS, REQUIREMENTS, History
from tests.trials.record import Recording, main
from tools.trials.calls import TEN

TABLE_EVERY = 20
"""Of so many histories one has a table."""


def ask_table(history: History, run: Callable[..., str]) -> Iterator[tuple[str, str]]:
    """Ask for claims of a table, if the history has one."""
    if history.seed % TABLE_EVERY:
        return
    chance = history.chance
    times = {"complete-to": "", "wait": str(history.guess_time())}
    require = chance.choice(REQUIREMENTS)
    domain = chance.choice(DOMAINS)
    table = claim_times(history, domain)
    for word, time in times.items():
        yield "claims", ask(run, word, table, time, require=require)
    yield "claims", run("why", table) + run("claim", "show", table)


def claim_times(history: History, domain: str) -> str:
    """Commit claims of a stream's query to a table, and return its URL."""
    chance = history.chance
    orders = Orders(Path(history.name))
    time = TEN
    for batch in range(4):
        time += chance.choice([-1, 0, 1, 2]) * MINUTE_MS
        missing_writers = []
        if chance.random() < 0.3:
            missing_writers.append("a")
        more: dict[str, Any] = {"asked": chance.random() < 0.7, "first": chance.choice([TEN, None])}
        more["from_time"] = chance.choice([MIN_INT64, TEN, None])
        if batch and chance.random() < 0.15:
            orders.overwrite()
        else:
            options = {"stream": history.name, "domain": domain, **more}
            orders.claim(time, batch, *missing_writers, **options)
    return orders.url


CLAIMS = Recording(
    ("claims",), Path(__file__).with_name("claim_hashes.txt"), ask_table, TABLE_EVERY
)

if __name__ == "__main__":
    main(CLAIMS, __doc__)
