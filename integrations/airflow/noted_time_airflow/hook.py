"""The connection type `noted_time`: the address of a controller, and a token."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook

from noted_time import NotedTimeError
from noted_time.client import Question
from noted_time.client.transport import Transport
from noted_time_airflow.waiting import Address, Condition, describe_error

DEFAULT_PORT = 7464


def get_address(connection: Any) -> Address:  # noqa: ANN401 - Airflow has two connection classes
    """Return the URL and the token of a connection, whose host may be URLs."""
    host = connection.host or "127.0.0.1"
    if "://" in host:
        return host, connection.password
    scheme = connection.schema or "http"
    port = connection.port or (DEFAULT_PORT if scheme == "http" else None)
    return f"{scheme}://{host}{f':{port}' if port else ''}", connection.password


def find_connections(condition: Condition) -> Generator[str, Any, tuple[Address | None, Any]]:
    """Yield the id of each connection, and take the connection; a table may have none."""
    try:
        address = get_address((yield condition.noted_time_conn_id))
    except AirflowNotFoundException:
        if condition.kind != "table":
            raise
        address = None
    if not condition.kafka_conn_id:
        return address, None
    return address, (yield condition.kafka_conn_id)


class NotedTimeHook(BaseHook):
    """Connects to a controller, with the connection's password as the token."""

    conn_name_attr = "noted_time_conn_id"
    default_conn_name = "noted_time_default"
    conn_type = "noted_time"
    hook_name = "noted-time"

    def __init__(
        self, noted_time_conn_id: str = default_conn_name, logger_name: str | None = None
    ) -> None:
        super().__init__(logger_name=logger_name)
        self.noted_time_conn_id = noted_time_conn_id

    def get_conn(self) -> Transport:
        """Return a transport to the controller."""
        url, token = get_address(self.get_connection(self.noted_time_conn_id))
        return Transport(url, token=token)

    def test_connection(self) -> tuple[bool, str]:
        """List one stream, and return whether the controller answers, with a sentence."""
        try:
            with closing(self.get_conn()) as transport:
                transport.ask(Question("GET", "/v1/streams", {"limit": 1}))
                return True, f"The controller at {transport.controllers.current} answers."
        except NotedTimeError as error:
            return False, describe_error(error)
