"""A call that begins with the controller's URL is refused, and the error says the order."""

import re
from typing import Any

import pytest

from noted_time import Rejected
from reader_client import AsyncReaderClient, KafkaRelay, ReaderClient, complete_to, why
from spark_integration import Noted, PositionListener
from writer_client import AsyncWriterClient, KafkaNotedProducer, WriterClient

URL = "http://c:7464"
CALLS: list[tuple[Any, tuple[object, ...], str]] = [
    (WriterClient, (URL, "orders", "berlin"), "stream, writer, controller=URL"),
    (AsyncWriterClient, (URL, "orders", "berlin"), "stream, writer, controller=URL"),
    (ReaderClient, (URL, "orders"), "stream, controller=URL"),
    (AsyncReaderClient, (URL, "orders"), "stream, controller=URL"),
    (complete_to, (URL, "orders", {0: 5}), "stream, position, controller=URL"),
    (why, (URL, "orders", 5), "dataset, time, controller=URL"),
    (KafkaNotedProducer, ({}, "orders", URL, "berlin"), "config, topic, writer, controller=URL"),
    (KafkaRelay, ({}, "orders", URL), "config, topic, controller=URL"),
    (Noted, (URL, "orders"), "stream, controller=URL"),
    (Noted, (URL,), "stream, controller=URL"),
    (PositionListener, (URL, "orders", "g", "r"), "stream, group, reader, controller=URL"),
]


@pytest.mark.parametrize(("call", "arguments", "order"), CALLS)
def test_url_as_a_name_is_refused_with_the_order(
    call: Any,  # noqa: ANN401 - a class or a function
    arguments: tuple[object, ...],
    order: str,
) -> None:
    refusal = f"{URL!r} is a URL and not a name: the order is {order}"
    with pytest.raises(Rejected, match=f"^{re.escape(refusal)}$"):
        call(*arguments)


def test_password_of_a_misplaced_url_is_not_repeated() -> None:
    with pytest.raises(Rejected, match=r"^'c:7464' is a URL and not a name: "):
        ReaderClient(stream="http://ops:secret@c:7464", controller=URL)
