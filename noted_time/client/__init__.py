"""Provide what all clients of a controller share: requests, failover, retries, tokens and JSON."""

from noted_time.client.controllers import ENVIRONMENT_VARIABLE, OWNER_HEADER, Controllers
from noted_time.client.protocol import (
    REQUEST_HEADER,
    AddressedQuestion,
    ForeignAnswer,
    Question,
    Reply,
    ask,
    ask_in_turn,
    run,
    run_async,
    stream_path,
)
from noted_time.client.retrying import Backoff, Outage, delay_s, draw_chance
from noted_time.client.wire import (
    Json,
    names_contact,
    note_to_wire,
    position_from_wire,
    position_to_wire,
)
