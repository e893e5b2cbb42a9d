"""Streams for a dashboard, created over HTTP: stalled ones, large ones, hours of one."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

from controller.service.clocks import Clocks
from noted_time.values import ServiceClock
from tools.trials.calls import HOUR_MS, Calls

MINUTE_MS = 60_000
STALLED_MS = 65 * MINUTE_MS
PLAYED_MS = 2 * HOUR_MS + STALLED_MS + 10 * MINUTE_MS
"""How long a story lasts. At any minute of the clock, an hour is then complete."""

MARKUP = "<img src=x onerror=alert(1)><b class=hostile>bold</b>"
"""Text that becomes an element unless it is escaped."""

OTHERS = {"clicks": 8, "payments": 3, "refunds": 20, "returns": 30, "sensors": 45, "shipments": 400}
"""Other streams of a story, and how many seconds they are behind the clock."""

CITIES = ("amsterdam", "delhi", "lima", "nairobi", "oslo", "quito", "sydney", "tokyo")


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class PassingTime:
    """The real clocks, `reader_lag_ms` behind, so a test lets hours pass at once."""

    reader_lag_ms: int = 0

    def now(self) -> int:
        return wall_ms() - self.reader_lag_ms

    def clocks(self) -> Clocks:
        """Return a controller's clocks; a service clock that steps as far as time passes."""
        return Clocks(
            ServiceClock(step_cap_ms=PLAYED_MS),
            wall_ms=self.now,
            steady_ms=lambda: time.monotonic_ns() // 1_000_000 - self.reader_lag_ms,
        )

    def passes(self, ms: int) -> None:
        self.reader_lag_ms = max(self.reader_lag_ms - ms, 0)


@dataclass(frozen=True, slots=True)
class Stalled:
    """A stream whose watermark stands at `held_at`, and without `lima` would be `without`."""

    name: str
    held_at: int
    without: int


def stall(seed: Calls, name: str, **settings: Any) -> Stalled:  # noqa: ANN401 - any setting
    """Make a stream that `lima` holds 65 minutes back, while `mike` and `oscar` continue."""
    now = wall_ms() // MINUTE_MS * MINUTE_MS
    stalled_stream = Stalled(name, held_at=now - 67 * MINUTE_MS, without=now - 2 * MINUTE_MS)
    seed.make(name, **settings)
    writers = ("lima", "mike", "oscar")
    domains = settings.get("domains", ["default"])
    seed.post(name, *({"writer": writer} for writer in writers))
    first = [
        {
            "writer": writer,
            "time": stalled_stream.held_at,
            "position": {str(segment): 100},
            "domain": domain,
        }
        for domain in domains
        for segment, writer in enumerate(writers)
    ]
    seed.post(name, *first)
    further = [
        {"writer": writer, "time": noted_at, "position": {str(segment): 900}, "domain": domain}
        for domain in domains
        for segment, (writer, noted_at) in enumerate(
            [("mike", stalled_stream.without), ("oscar", stalled_stream.without + MINUTE_MS)],
            start=1,
        )
    ]
    seed.post(name, *further)
    return stalled_stream


def crowd(seed: Calls, name: str, writers: int = 10_000) -> None:
    """Make a stream of that many writers, named w-00000 and so on; the first holds it back."""
    now = wall_ms()
    seed.make(name)
    seed.post(name, *({"writer": f"w-{number:05}"} for number in range(writers)))
    seed.post(
        name,
        *(
            {
                "writer": f"w-{number:05}",
                "time": now - HOUR_MS + number,
                "position": {"0": number + 1},
            }
            for number in range(writers)
        ),
    )


def make_many(seed: Calls, streams: int = 1000) -> None:
    """Make that many streams, named s-0000 and so on; a writer holds back each tenth."""
    for number in range(streams):
        seed.make(name := f"s-{number:04}")
        if number % 10 == 0:
            seed.post(name, {"writer": "w"}, {"writer": "v"})
            seed.post(name, {"writer": "w", "time": wall_ms() - number * 1000})


@dataclass
class Story:
    """Three hours of the stream `orders`; the last 65 minutes wait for `lima`.

    A segment is sealed, `quito` is removed and comes back below the watermark, and readers follow.
    Of the other streams, one is held back for minutes, and one quiet at the end.
    """

    seed: Calls
    time: PassingTime = field(default_factory=lambda: PassingTime(PLAYED_MS))
    random: Random = field(default_factory=lambda: Random(11))
    offsets: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    times: dict[str, int] = field(default_factory=dict)
    name: str = "orders"

    def play(self) -> None:
        for name in OTHERS:
            self.seed.make(name)
        self.seed.post("sensors", {"writer": "sensors-9"}, {"writer": "sensors-9", "state": "idle"})
        self.seed.make(self.name, writer_timeout_ms=2 * HOUR_MS)
        self.seed.post(self.name, *({"writer": city} for city in CITIES))
        events = {40: self._remove, 55: self._scale, 75: self._change, 90: self._hold}
        while self.time.reader_lag_ms > 0:
            minute = (PLAYED_MS - self.time.reader_lag_ms) // MINUTE_MS
            self._note(minute)
            events.get(minute, lambda: None)()
            if minute % 5 == 0:
                self._read()
            if minute % 3 == 0:
                self._note_others()
            self.time.passes(MINUTE_MS)
        self._note(PLAYED_MS // MINUTE_MS)
        self._note_others()
        self.seed.post("returns", *({"writer": f"returns-{n}", "state": "idle"} for n in range(3)))

    def _note(self, minute: int) -> None:
        silent = set()
        if self.time.reader_lag_ms <= STALLED_MS:
            silent.add("lima")
        if 30 <= minute < 50:
            silent.add("quito")
        notes = [self._build_note(city) for city in CITIES if city not in silent]
        self.seed.post(self.name, *notes)

    def _build_note(self, writer: str) -> dict[str, Any]:
        segment = CITIES.index(writer) % 3 or (3 if 3 in self.offsets else 0)
        self.offsets[segment] += self.random.randint(20, 60)
        note: dict[str, Any] = {"writer": writer, "position": {str(segment): self.offsets[segment]}}
        late = self.random.randint(10, 150) * 1000
        before = self.times.get(writer, 0)
        noted_at = self.times[writer] = max(before, self.time.now() - late)
        if writer == "quito" and self.time.now() - before > 15 * MINUTE_MS and before:
            note["late_rows"] = {"rows": 312, "min_time": before}
        return note | {"time": noted_at, "max_time": noted_at + late // 2}

    def _read(self) -> None:
        shares = {"billing": (0.995, 1.0), "nightly-archive": (0.8,)}
        for group, behind in shares.items():
            for number, share in enumerate(behind):
                mine = {
                    str(segment): int(offset * share)
                    for segment, offset in self.offsets.items()
                    if segment % len(behind) == number
                }
                path = f"/{self.name}/reader-groups/{group}/readers/{group}-{number}"
                self.seed.call("PUT", path, {"position": mine})

    def _remove(self) -> None:
        why = "the disk of the depot is full, spoke to Ana"
        self.seed.call("DELETE", f"/{self.name}/writers/quito", comment=why)

    def _scale(self) -> None:
        sealed_offset = self.offsets[0]
        self.offsets[3] = 0
        body = {"sealed": {"0": sealed_offset}, "created": {"3": [0]}}
        self.seed.call("POST", f"/{self.name}/scale", body, comment="orders-0 was full")

    def _change(self) -> None:
        body = {"writer_timeout_ms": 3 * HOUR_MS}
        self.seed.call(
            "PUT", f"/{self.name}", body, comment="maintenance in two cities this afternoon"
        )

    def _hold(self) -> None:
        path = f"/{self.name}/writers/nairobi/suspension"
        self.seed.call("POST", path, {"for_ms": 20 * MINUTE_MS}, comment="restarts its host")

    def _note_others(self) -> None:
        for name, behind in OTHERS.items():
            writers = [f"{name}-{number}" for number in range(3)]
            if name == "refunds" and self.time.reader_lag_ms < 13 * MINUTE_MS:
                writers.pop()
            for writer in writers:
                before = self.times.get(writer, 0)
                noted_at = self.time.now() - int(behind * self.random.uniform(500, 1500))
                self.times[writer] = max(before, noted_at)
            self.seed.post(
                name, *({"writer": writer, "time": self.times[writer]} for writer in writers)
            )
