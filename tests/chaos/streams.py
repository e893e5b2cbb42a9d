"""The streams of a trial: what their writers share, and what they are set to."""

from __future__ import annotations

from typing import Any

from tests.support.load import LoadedStream

SETTINGS: dict[str, dict[str, Any]] = {
    "flights": {"mark_interval_ms": 0},
    "trains": {"mark_interval_ms": 50},
    "ships": {"mark_interval_ms": 20, "keys": ["order", "arrival"]},
    "trams": {"mark_interval_ms": 200},
    "parcels": {"mark_interval_ms": 100, "keys": ["default", "delivery"]},
    "buses": {"mark_interval_ms": 0},
    "control": {"mark_interval_ms": 100},
}
CONTROL = "control"
"""The stream of a writer that does fall silent; time stands there until it is left out."""
UNNUMBERED = "trams"
"""The stream whose writers do not number their requests, as other clients may not either."""


def streams() -> dict[str, LoadedStream]:
    """Return the streams: some with two keys, some whose writers share segments."""
    made = [
        LoadedStream("flights"),
        LoadedStream("trains", shared=False),
        LoadedStream("ships", ("order", "arrival")),
        LoadedStream("trams"),
        LoadedStream("parcels", ("default", "delivery"), shared=False),
        LoadedStream("buses", shared=False),
        LoadedStream(CONTROL),
    ]
    for stream in made:
        stream.rests, stream.leaves = (0.0 if stream.name == CONTROL else 0.02), 0.2
    return {stream.name: stream for stream in made}
