"""What the clients of version 0.1.0 send is answered as they expect, by recorded exchanges.

`tests/upgrade/recording.py` recorded them between its clients and its controller.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controller.service.controller import Controller
from tests.support.http import answering
from tests.support.memory_store import MemoryStore

RECORDED = json.loads((Path(__file__).parent / "exchanges-0.1.0.json").read_text())
GONE = {"corrections"}
"""The fields that are gone since; clients of 0.1.0 take them to be 0 where they are absent."""

WAITS = re.compile(r"wait_ms=\d+")


def lacking(was: Any, answer: Any, place: str = "") -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Yield where a recorded answer has something that this one lacks, or has of another type.

    >>> list(lacking({"a": 1, "b": [{"c": None}]}, {"a": "1", "b": [{"d": 2}]}))
    ['.a', '.b[].c']
    """
    if isinstance(was, dict) and isinstance(answer, dict):
        for name, value in was.items():
            if name in GONE:
                continue
            if name in answer:
                yield from lacking(value, answer[name], f"{place}.{name}")
            else:
                yield f"{place}.{name}"
    elif isinstance(was, list) and isinstance(answer, list):
        for each, other in zip(was, answer, strict=False):
            yield from lacking(each, other, f"{place}[]")
    elif type(was) is not type(answer) and was is not None:
        yield place


async def test_the_answers_have_all_that_clients_of_0_1_0_read() -> None:
    """The same statuses, fields and types, to a writer from its join to its end, and a reader."""
    found = []
    async with answering(Controller(MemoryStore())) as call:
        for each in RECORDED:
            path = WAITS.sub("wait_ms=1", each["path"])
            answer = await call.client.request(each["method"], path, json=each["body"])
            found.append((answer.status_code, [*lacking(each["answer"], answer.json())]))

    assert found == [(each["status"], []) for each in RECORDED]


async def test_the_marks_that_its_reader_was_sent_are_the_same() -> None:
    """But for when they were written."""
    heard: list[tuple[int, int]] = []
    async with answering(Controller(MemoryStore())) as call:
        for each in RECORDED:
            await call.client.request(
                each["method"], WAITS.sub("wait_ms=1", each["path"]), json=each["body"]
            )
        marks = (await call.get("/v1/streams/s/marks")).json()["marks"]
        heard = [(mark["seq"], mark["lower"]) for mark in marks]

    told = [each["answer"]["marks"] for each in RECORDED if "/marks?domain=default" in each["path"]]
    assert told[0] != []
    assert set(heard) >= {(mark["seq"], mark["lower"]) for page in told for mark in page}
