"""Metrics of leases; `calls/metrics.txt` has those of streams, writers and reader groups."""

from controller.service.telemetry.metrics import Metrics
from controller.store.port import Leases


async def test_buckets_without_controller_are_shown() -> None:
    """This includes buckets that an unknown session has locked."""
    metrics = Metrics()
    metrics.show_state(Leases(8, frozenset({0, 1, 2}), {3: "http://b", 4: "", 5: ""}), ready=True)

    counts = [
        metrics.registry.get_sample_value("noted_time_buckets", {"owner": owner})
        for owner in ("this", "other", "nobody")
    ]
    assert counts == [3.0, 1.0, 4.0]
