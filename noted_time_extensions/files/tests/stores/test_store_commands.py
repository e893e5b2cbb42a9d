"""Commands for a file log in a store."""

import json

from noted_time_extensions.files import SegmentLogWriter
from tests.cli.conftest import Commands
from tools.trials.served import Served

HOUR_MS = 3_600_000


def test_log_in_a_bucket_is_observed_and_analysed(bucket: str) -> None:
    log = SegmentLogWriter(bucket, "flights", segments=[0, 1], event_time="at")
    for segment, hour in ((0, 400_000), (1, 400_002), (0, 400_001)):
        log.append([{"at": hour * HOUR_MS}], segment=segment)
    with Served() as served:
        served.call("PUT", "/flights", {"mark_interval_ms": 0})
        words = ("log", "event-time", bucket, "flights", "--field", "at", "--delay", "0s")
        result = Commands(served.url)("observe", *words, "--for", "0s")
        (mark,) = served.all_marks("flights")
        analysis = Commands(served.url)(
            "analyse", "log", bucket, "flights", "--time", "at", "--json"
        )

    assert (result.status, mark["cut"]) == (0, {"0": 2, "1": 1}), result.err
    assert (json.loads(analysis.out)["rows"], analysis.status) == (3, 0)
