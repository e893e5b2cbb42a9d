"""Gives time zones to all parts of noted-time, by the newest zone data that are installed.

Laws of zones change, and a machine may have two releases of zone data: the system's, in the
directories of `zoneinfo.TZPATH`, and the Python package `tzdata`.
"""

from __future__ import annotations

import pkgutil
import re
import zoneinfo
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from io import BytesIO
from pathlib import Path

from noted_time.values.errors import Unreadable

ZONE_PACKAGE = "tzdata"

UNKNOWN_RELEASE = "of an unknown release"

RELEASE_FILES = ("tzdata.zi", "+VERSION")
"""Files in a directory of zones that name the release in their first line."""

RELEASE_PATTERN = re.compile(r"\b([0-9]{4})([a-z]{1,2})\b", re.ASCII)
KEY_PATTERN = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", re.ASCII)


class ReleasedZone(zoneinfo.ZoneInfo):
    """A zone by the data of one `release`.

    Zones are equal if both name and release are. In another process, a pickled zone has the rules
    of the same release, or `Unreadable` is raised.
    """

    release: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReleasedZone):
            return NotImplemented
        return (self.key, self.release) == (other.key, other.release)

    def __hash__(self) -> int:
        return hash((self.key, self.release))

    def __reduce__(self) -> tuple[object, ...]:
        return load_released_zone, (self.key, self.release)


class DirectoryOfZones:
    """The zones in a directory of the system, whose release may not be known."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.release = self._find_release()

    def read(self, key: str) -> bytes:
        """Return the rules of a zone (RFC 9636), or raise `OSError`."""
        return self._directory.joinpath(key).read_bytes()

    def _find_release(self) -> str | None:
        for name in RELEASE_FILES:
            with (
                suppress(OSError),
                self._directory.joinpath(name).open(encoding="ascii", errors="replace") as file,
            ):
                match = RELEASE_PATTERN.search(file.readline(100))
                if match is not None:
                    return match[0]
        return None


class PackageOfZones:
    """The zones in the Python package `tzdata`."""

    def __init__(self) -> None:
        self.release: str | None = import_module(ZONE_PACKAGE).IANA_VERSION

    def read(self, key: str) -> bytes:
        """Return the rules of a zone, or raise `OSError`."""
        rules = pkgutil.get_data(ZONE_PACKAGE, f"zoneinfo/{key}")
        if rules is None:
            raise FileNotFoundError(key)
        return rules


ZoneSource = DirectoryOfZones | PackageOfZones


@cache
def list_zone_sources() -> Sequence[ZoneSource]:
    """Return the installed zone data, from the newest release to the oldest.

    Zone data of an unknown release come last. Of two with one release, the package comes first,
    because it is the same on each system.
    """
    sources: list[ZoneSource] = []
    with suppress(ModuleNotFoundError):
        sources.append(PackageOfZones())
    for path in zoneinfo.TZPATH:
        if Path(path).is_dir():
            sources.append(DirectoryOfZones(Path(path)))
    return sorted(sources, key=lambda source: _rank_release(source.release), reverse=True)


def find_zone_release() -> str | None:
    """Return the release of the zone data in use, such as 2026a, `None` if it is not known."""
    for source in list_zone_sources():
        return source.release
    return None


def load_zone(key: str) -> ReleasedZone:
    """Return a zone by its name, from the newest zone data that have it.

    >>> load_zone("Europe/Berlin").key
    'Europe/Berlin'

    Raises `KeyError` if none have it.
    """
    return _load_from(list_zone_sources(), key)


def load_released_zone(key: str, release: str | None) -> ReleasedZone:
    """Return a zone by the data of one release, or raise `Unreadable` if they are not installed."""
    sources = [source for source in list_zone_sources() if source.release == release]
    if sources:
        return _load_from(sources, key)
    raise Unreadable(
        f"the zone {key} came from a process with zone data of release {release or 'unknown'}, and "
        f"this process has {find_zone_release() or 'none of a known release'}: install the same "
        f"version of the Python package {ZONE_PACKAGE} for both"
    )


def list_zone_names() -> Sequence[str]:
    return sorted(zoneinfo.available_timezones())


def _load_from(sources: Sequence[ZoneSource], key: str) -> ReleasedZone:
    if KEY_PATTERN.fullmatch(key) is not None:
        for source in sources:
            with suppress(OSError):  # not there, or a directory
                return _read_zone(source, key)
    raise KeyError(key)


@cache
def _read_zone(source: ZoneSource, key: str) -> ReleasedZone:
    zone = ReleasedZone.from_file(BytesIO(source.read(key)), key=key)
    zone.release = source.release
    return zone


def _rank_release(release: str | None) -> tuple[int, int, str]:
    """Return a key that sorts releases by age.

    >>> sorted(["2025z", "2026a", None, "2025za", "2025b"], key=_rank_release)
    [None, '2025b', '2025z', '2025za', '2026a']
    """
    match = None
    if release is not None:
        match = RELEASE_PATTERN.fullmatch(release)
    if match is None:
        return 0, 0, ""
    year, letters = match.groups()
    return int(year), len(letters), letters
