"""Measures controllers during the stages of a trial: their answers and their memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import httpx

from benchmarks.load import percentile
from tests.scale.crowd import BEGUN_MS, PATIENCE_S
from tests.support.memory import Usage
from tests.support.processes import ServeProcess
from tools.trials.waiting import wait_until

PAUSE_S = 0.02
"""Between an answer and the next call of a probe."""

IDLE_CALLS = 200
"""How many calls of each probe the figures of an idle controller are of."""

FEW_WRITERS = 3

Ask = Callable[[httpx.Client, int], httpx.Response]


class Sample(NamedTuple):
    """The seconds of a call, and when it ended."""

    ended_at: float
    seconds: float


class Probe:
    """A thread that makes one call after the other, until the end of the block."""

    def __init__(self, ask: Ask) -> None:
        self.samples: list[Sample] = []
        self.failures: list[str] = []
        self._ask = ask
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def list_seconds(self, begun_at: float) -> list[float]:
        """Return the seconds of the calls that ended since, with a call that began since."""
        count = len(self.samples)
        wait_until(lambda: len(self.samples) >= count + 2)
        return [sample.seconds for sample in list(self.samples) if sample.ended_at >= begun_at]

    def _run(self) -> None:
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            while not self._has_ended.wait(PAUSE_S):
                self._call(client)

    def _call(self, client: httpx.Client) -> None:
        begun_at = time.monotonic()
        try:
            answer = self._ask(client, len(self.samples))
            if not answer.is_success:
                self.failures.append(f"{answer.status_code}: {answer.text[:200]}")
        except httpx.HTTPError as fault:
            self.failures.append(repr(fault))
        ended_at = time.monotonic()
        self.samples.append(Sample(ended_at, ended_at - begun_at))


def probe_health(controller: ServeProcess) -> Probe:
    url = f"{controller.url}/healthz"
    return Probe(lambda client, _: client.get(url))


def probe_notes(controller: ServeProcess, stream: str) -> Probe:
    """Note as one of a few writers of a stream."""
    url = f"{controller.url}/v1/streams/{stream}/notes"

    def note(client: httpx.Client, count: int) -> httpx.Response:
        position = {str(count % FEW_WRITERS): count}
        writer = f"writer-{count % FEW_WRITERS}"
        body = {"notes": [{"writer": writer, "time": BEGUN_MS + count, "position": position}]}
        return client.post(url, json=body)

    return Probe(note)


@dataclass(frozen=True)
class Stage:
    """The figures of a stage; the owner of the stream is the first controller."""

    name: str
    seconds: float
    worst_health_s: float
    worst_note_s: float
    peaks_mib: tuple[float, ...]


@dataclass
class Record:
    """The figures and events of a trial."""

    database: str
    writers: int
    stages: dict[str, Stage] = field(default_factory=dict)
    idle_p99_health_s: float = 0.0
    idle_p99_note_s: float = 0.0
    idle_mib: tuple[float, ...] = ()
    excluded: dict[str, int] = field(default_factory=dict)
    excluded_after_s: dict[str, float] = field(default_factory=dict)
    held_from_s: float = 0.0
    lowers: list[int] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)
    stored_offsets: int = 0
    repeats: int = 0
    failures: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def format_table(self) -> list[str]:
        """Return the lines of a table of the stages."""
        title = f"{self.writers} writers, {self.database}"
        idle = f"idle p99 {1000 * self.idle_p99_health_s:.0f} and {1000 * self.idle_p99_note_s:.0f}"
        head = f"{'stage':<12}{'s':>8}{'healthz ms':>12}{'note ms':>10}  peak MiB"
        lines = [f"{title}, {idle} ms", head]
        for stage in self.stages.values():
            worst = f"{1000 * stage.worst_health_s:>12.0f}{1000 * stage.worst_note_s:>10.0f}"
            peaks = " ".join(f"{peak:.0f}" for peak in stage.peaks_mib)
            lines.append(f"{stage.name:<12}{stage.seconds:>8.1f}{worst}  {peaks}")
        for name, seconds in self.excluded_after_s.items():
            lines.append(f"{name}: excluded {seconds:.1f} s after the timeout")
        if self.repeats:
            lines.append(f"{self.repeats} calls about the stream itself were repeated")
        return lines

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=2) + "\n")


class Meter:
    """Measures controllers until the end of the block."""

    def __init__(self, controllers: Sequence[ServeProcess], stream: str, record: Record) -> None:
        """Probe each controller, and the first one by notes of the stream."""
        self._controllers = controllers
        self._health = [probe_health(controller) for controller in controllers]
        self._notes = probe_notes(controllers[0], stream)
        self._record = record
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for probe in (*self._health, self._notes):
            self._stack.enter_context(probe)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for probe in (*self._health, self._notes):
            self._record.failures += probe.failures

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage, also one that fails."""
        usages = [Usage(controller.process.pid) for controller in self._controllers]
        begun_at = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - begun_at
            self._record.stages[name] = Stage(
                name,
                seconds,
                max(max(probe.list_seconds(begun_at)) for probe in self._health),
                max(self._notes.list_seconds(begun_at)),
                tuple(usage.peak() for usage in usages),
            )

    def measure_idle(self) -> None:
        """Measure calls and memory while nothing else happens."""
        begun_at = time.monotonic()
        counts = [len(probe.samples) for probe in (*self._health, self._notes)]
        with self.stage("idle"):
            for probe, count in zip((*self._health, self._notes), counts, strict=True):
                wait_until(lambda: len(probe.samples) >= count + IDLE_CALLS)  # noqa: B023 - called at once
        health_seconds = [
            seconds for probe in self._health for seconds in probe.list_seconds(begun_at)
        ]
        self._record.idle_p99_health_s = percentile(health_seconds, 99)
        self._record.idle_p99_note_s = percentile(self._notes.list_seconds(begun_at), 99)
        self._record.idle_mib = self._record.stages["idle"].peaks_mib
