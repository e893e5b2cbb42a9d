"""The connection type `noted_time`: where a controller is, and the token that it is shown."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook

from noted_time import NotedTimeError
from noted_time.client import Question
from noted_time.client.transport import Transport
from noted_time_airflow.waiting import Wanted
from noted_time_airflow.watching import Address

DEFAULT_PORT = 7464


def address_of(connection: Any) -> Address:  # noqa: ANN401 - Airflow has two of them
    """Return the URL and the token of a connection.

    The host may be whole URLs, separated by commas: those of several controllers of one database.
    """
    host = connection.host or "127.0.0.1"
    if "://" in host:
        return host, connection.password
    scheme = connection.schema or "http"
    port = connection.port or (DEFAULT_PORT if scheme == "http" else None)
    return f"{scheme}://{host}{f':{port}' if port else ''}", connection.password


def find_connections(wanted: Wanted) -> Generator[str, Any, tuple[Address | None, Any]]:
    """Return the address of the controller, and the connection of Kafka if a group is wanted.

    Yields the id of each connection. Only a table needs no controller.
    """
    try:
        address = address_of((yield wanted.conn_id))
    except AirflowNotFoundException:
        if not wanted.table:
            raise
        address = None
    return address, (yield wanted.kafka_conn_id) if wanted.group else None


class NotedTimeHook(BaseHook):
    """Connects to a controller; the connection's password is its token."""

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
        """Return connections to the controller; raises `Rejected` if the URL is not one."""
        url, token = address_of(self.get_connection(self.noted_time_conn_id))
        return Transport(url, token=token)

    def test_connection(self) -> tuple[bool, str]:
        """Ask for a stream; return whether that is answered, and a sentence."""
        try:
            with closing(self.get_conn()) as transport:
                transport.ask(Question("GET", "/v1/streams", {"limit": 1}))
                return True, f"The controller at {transport.controllers.current} answers."
        except NotedTimeError as error:
            return False, str(error)
