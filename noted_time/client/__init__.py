"""What every client of a controller needs: requests, failover, backoff, tokens, wire forms."""

from noted_time.client.asking import (
    Asked,
    Question,
    Reply,
    ask,
    ask_in_turn,
    run,
    run_async,
    stream_path,
)
from noted_time.client.controllers import OWNER, VARIABLE, Controllers
from noted_time.client.retrying import Backoff, Outage, delay_s, own_chance
from noted_time.client.wire import (
    MISREAD,
    Json,
    complete_window_from_wire,
    int64,
    late_from_wire,
    mark_from_wire,
    mark_to_wire,
    missing_from_wire,
    not_vouching_from_wire,
    note_to_wire,
    position_from_wire,
    position_to_wire,
    text,
    vouched_from_wire,
)
