"""Power cuts of a model of a disk, which keeps what `fsync` and `fdatasync` made durable.

A program runs with `power.c` preloaded, which records the durable content after each call. So one
run has a cut after each call, and `restore` makes its files. A *torn* cut has half of the sectors
of 512 bytes of the next call.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import pytest

SOURCE = Path(__file__).with_suffix(".c")
SECTOR = 512
ROOT = "root"


def missing() -> str | None:
    """Return the reason why the model cannot run on this machine, if any."""
    if sys.platform != "linux":
        return "not Linux"
    return None if shutil.which("cc") else "no C compiler"


class Acknowledged(NamedTuple):
    """A fact that was acknowledged to a program, and the time (monotonic ns)."""

    at: int
    what: str

    @classmethod
    def now(cls, what: object) -> Self:
        return cls(time.monotonic_ns(), str(what))


@dataclass(frozen=True, slots=True)
class Disk:
    """The records of programs that run with `variables` and write below `root`."""

    library: Path
    root: Path
    records: Path

    @classmethod
    def new(cls, directory: Path) -> Disk:
        """Return one with an empty root, or skip the test."""
        if reason := missing():
            pytest.skip(f"{reason}: power cuts were not tried")
        disk = cls(directory / "power.so", directory / "root", directory / "records")
        for each in (disk.root, disk.records):
            each.mkdir()
        options = ("-shared", "-fPIC", "-O1", "-o", disk.library, SOURCE, "-ldl")
        subprocess.run(["cc", *options], check=True)
        return disk

    @property
    def variables(self) -> dict[str, str]:
        return self.ignoring | {"POWER_DISK": str(self.records)}

    @property
    def ignoring(self) -> dict[str, str]:
        """The variables for a disk that ignores every call."""
        return {"LD_PRELOAD": str(self.library), "POWER_ROOT": str(self.root)}

    def cuts(self) -> Iterator[Cut]:
        """Yield a power cut before the first call, and one after each."""
        records = sorted(self.records.glob("[0-9]*"))
        for number in range(len(records) + 1):
            yield Cut(records[:number], records[number:])


@dataclass(frozen=True, slots=True)
class Cut:
    """A power cut: the records of the calls before it and after it."""

    before: Sequence[Path]
    after: Sequence[Path]

    def find_durable(self, acknowledged_times: Sequence[Acknowledged]) -> list[str]:
        """Return the facts acknowledged before the next call returned."""
        end = int(self.after[0].name[:20]) if self.after else time.monotonic_ns()
        return [
            acknowledgement.what
            for acknowledgement in acknowledged_times
            if acknowledgement.at < end
        ]

    def restore(self, target: Path, *, torn: bool = False) -> Path:
        """Restore the files of `root` after the cut."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        kept_records = {_key(record): record for record in self.before}
        later_records = {_key(record): record for record in self.after[:1]} if torn else {}

        def fill(key: str, directory: Path) -> None:
            for line in kept_records[key].read_text().splitlines() if key in kept_records else ():
                kind, entry, name = line.split(" ", 2)
                if kind == "d":
                    (directory / name).mkdir()
                    fill(entry, directory / name)
                else:
                    content = kept_records[entry].read_bytes() if entry in kept_records else b""
                    if entry in later_records:
                        content = _torn(content, later_records[entry].read_bytes())
                    (directory / name).write_bytes(content)

        fill(ROOT, target)
        return target


def _key(record: Path) -> str:
    return record.name.partition("-")[2]


def _torn(content: bytes, later_content: bytes) -> bytes:
    """Return the content with the first half of the changed sectors."""
    places = range(0, len(later_content), SECTOR)
    written_places = [
        place
        for place in places
        if later_content[place : place + SECTOR] != content[place : place + SECTOR]
    ]
    torn_content = bytearray(content)
    for place in written_places[: len(written_places) // 2]:
        torn_content[place : place + SECTOR] = later_content[place : place + SECTOR]
    return bytes(torn_content)
