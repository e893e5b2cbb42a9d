"""The metrics of a controller, its streams and their reader groups."""

import pytest

from controller.aggregation.views import inspection, reader_lags
from controller.service.telemetry import metrics
from controller.service.telemetry.metrics import Metrics
from controller.store.port import Leases, StoreUnavailable
from noted_time.values import Note
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    run_controller,
    serve_for,
    serve_stream,
    wait_until_async,
)
from tests.support.scrapes import scrape

KEY = ("default", "s")


async def test_batch_that_was_not_written_is_not_counted(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        memory.watch.failures.append(StoreUnavailable("gone"))
        with pytest.raises(StoreUnavailable):
            await deliver(controller, Note("a"))
        await wait_until_async(lambda: controller._committer.ready)

        names = ("failed_commits_total", "members")
        shown = [scrape(controller, f"noted_time_{name}") for name in names]
        assert (shown[0], shown[1]["live", "s"]) == ({(): 1.0}, 0.0)


async def test_holders_named_in_all_streams_are_bounded(
    memory: Watched, time: GivenTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "NAMES_SHOWN", 2)
    async with run_controller(memory, time) as controller:
        for stream in ("s1", "s2", "s3"):
            await controller.put_stream(stream, {})
            await controller.note(stream, [Note("a")])
            serve_for(controller, time, 1000)
        serve_for(controller, time, metrics.NAMED_AFTER_MS)

        named = [stream for _, stream, _ in scrape(controller, "noted_time_holder_seconds")]
        rest = scrape(controller, "noted_time_holders_not_named")
        assert (named, rest) == (["s1", "s2"], {(): 1.0})


async def test_streams_shown_are_bounded(memory: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "STREAMS_SHOWN", 2)
    async with run_controller(memory) as controller:
        for stream in ("s1", "s2", "s3"):
            await controller.put_stream(stream, {})

        shown = [stream for (stream,) in scrape(controller, "noted_time_excluded_total")]
        rest = scrape(controller, "noted_time_streams_not_shown")
        assert (shown, rest) == (["s1", "s2"], {(): 1.0})


async def test_buckets_without_controller_are_shown() -> None:
    """This includes buckets that an unknown session has locked."""
    metrics = Metrics()
    metrics.show_state(Leases(8, frozenset({0, 1, 2}), {3: "http://b", 4: "", 5: ""}), ready=True)

    owners = ("this", "other", "nobody")
    shown = [
        metrics.registry.get_sample_value("noted_time_buckets", {"owner": owner})
        for owner in owners
    ]
    assert shown == [3.0, 1.0, 4.0]


async def test_scrape_examines_few_holders(
    memory: Watched, time: GivenTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "HOLDERS_EXAMINED", 3)
    async with serve_stream(memory, time) as controller:
        for number in range(6):
            await deliver(controller, Note(f"w{number}"))
        serve_for(controller, time, metrics.NAMED_AFTER_MS)

        named = {writer for *_, writer in scrape(controller, "noted_time_holder_seconds")}
        assert (named, scrape(controller, "noted_time_holders")) == ({"w0", "w1", "w2"}, {KEY: 6.0})


@pytest.mark.parametrize(("bound", "most"), [("GROUPS_SHOWN", 2), ("SEGMENTS_READ", 2)])
async def test_scrape_examines_bounded_number_of_groups(
    memory: Watched, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(reader_lags, bound, most)
    async with serve_stream(memory) as controller:
        await deliver(controller, Note("a", 10, {0: 1}))
        for group in "abc":
            await controller.report("s", group, "r", {0: 1})

        shown = scrape(controller, "noted_time_group_behind")
        not_shown = scrape(controller, "noted_time_groups_not_shown")
        assert (len(shown), not_shown) == (2, {(): 1.0})
