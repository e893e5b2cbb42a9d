"""The snippets of the page about readers run and print as shown."""

import re

from tests.support.page import BINDING, Session, read_page
from tools.trials.served import Served

PAGE = "docs/guides/readers.md"
TEN = 1_357_034_400_000


def test_readers_page_snippets_run(served: Served) -> None:
    """They run in order, against the stream of the page."""
    stream = "orders-of-the-page"
    printed_lines = list[str]()
    served.create(stream)
    served.note(stream, TEN, {"0": 90, "1": 40})
    served.create("trips", domains=["departed", "landed"])
    page = Session(PAGE, {BINDING: served.url, '"orders"': f'"{stream}"'})
    page.names["print"] = lambda value: printed_lines.append(str(value))
    page.run()

    assert printed_lines == re.findall(r"print\(.*\)  # (.*)", read_page(PAGE))
