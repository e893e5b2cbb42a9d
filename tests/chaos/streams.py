"""The streams of a trial: what their writers share, and what they are set to."""

from __future__ import annotations

from typing import Any

from tests.chaos.returning import ExcludingStream
from tests.chaos.scaling import ScaledStream

SETTINGS: dict[str, dict[str, Any]] = {
    "flights": {"mark_interval_ms": 0},
    "trains": {"mark_interval_ms": 50},
    "ships": {"mark_interval_ms": 20, "domains": ["order", "arrival"]},
    "trams": {"mark_interval_ms": 200},
    "parcels": {"mark_interval_ms": 100, "domains": ["default", "delivery"]},
    "buses": {"mark_interval_ms": 0},
    "ferries": {"mark_interval_ms": 100, "returning_writer": "exclude"},
    "control": {"mark_interval_ms": 100},
}
CONTROL = "control"
"""The stream of a writer that does fall silent; time stands there until it is excluded."""
EXCLUDING = "ferries"
"""The stream that goes on without who comes back."""
SCALED = ("flights", "ships", "buses")
"""The streams whose segments are split and merged."""
TRUNCATED = ("flights", "trains", "ships")
"""The streams whose marks are dropped where readers have passed them."""
UNNUMBERED = "trams"
"""The stream whose writers do not number their requests, as other clients may not either."""


def streams() -> dict[str, ScaledStream]:
    """Return the streams: some with two domains, some whose writers share segments."""
    made = [
        ScaledStream("flights"),
        ScaledStream("trains", shared=False),
        ScaledStream("ships", ("order", "arrival")),
        ScaledStream("trams"),
        ScaledStream("parcels", ("default", "delivery"), shared=False),
        ScaledStream("buses", shared=False),
        ExcludingStream(EXCLUDING),
        ScaledStream(CONTROL),
    ]
    for stream in made:
        steady = stream.name not in (CONTROL, EXCLUDING)
        stream.rests, stream.leaves = (0.02 if steady else 0.0), 0.2
    return {stream.name: stream for stream in made}
