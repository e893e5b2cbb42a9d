"""Zone data of two releases side by side: the newest are used, and zones keep their release."""

from __future__ import annotations

import pickle
import zoneinfo
from collections.abc import Iterator
from pathlib import Path

import pytest

from noted_time.values import format_in_zone, parse_time
from noted_time.values.zones import (
    DirectoryOfZones,
    PackageOfZones,
    find_zone_release,
    list_zone_sources,
    load_released_zone,
    load_zone,
)
from tests.support.zone_data import OLD_RELEASE, WITHOUT_PACKAGE, run_python, write_zones

NEW_RELEASE = PackageOfZones().release
NOVEMBER = parse_time("2026-11-20T19:00Z")
NEW_TIME = "2026-11-20T12:00:00-07:00"
OLD_TIME = "2026-11-20T11:00:00-08:00"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Path]:
    """Return the only directory of the system's zones, which is of an older release."""
    zoneinfo.reset_tzpath([write_zones(tmp_path)])
    list_zone_sources.cache_clear()
    yield tmp_path
    zoneinfo.reset_tzpath()
    list_zone_sources.cache_clear()


def print_in_process(code: str, zones: Path) -> str:
    return run_python(code, zones).stdout.strip()


@pytest.mark.usefixtures("system")
def test_newest_release_gives_the_rules() -> None:
    zone = load_zone("America/Vancouver")

    assert (find_zone_release(), zone.release) == (NEW_RELEASE, NEW_RELEASE)
    assert format_in_zone(NOVEMBER, zone) == NEW_TIME


@pytest.mark.parametrize(
    ("first_line", "release"),
    [("# version 9999a\n", "9999a"), ("", NEW_RELEASE), ("# version 2025b\n", NEW_RELEASE)],
)
def test_system_gives_the_zones_if_it_is_newer(
    tmp_path: Path, first_line: str, release: str
) -> None:
    """A release that is not known loses to the package's."""
    code = (
        "from noted_time.values.zones import load_zone; print(load_zone('Europe/Berlin').release)"
    )

    assert print_in_process(code, write_zones(tmp_path, first_line)) == release


@pytest.mark.parametrize(("first_line", "release"), [("# version 2025b\n", "2025b"), ("", "None")])
def test_system_gives_the_zones_without_the_package(
    tmp_path: Path, first_line: str, release: str
) -> None:
    """They have a release also if it is not known: none."""
    code = (
        f"{WITHOUT_PACKAGE}from noted_time.values import *; "
        "zone = parse_zone('America/Vancouver'); "
        f"print(find_zone_release(), zone.release, format_in_zone({NOVEMBER}, zone))"
    )

    assert (
        print_in_process(code, write_zones(tmp_path, first_line))
        == f"{release} {release} {OLD_TIME}"
    )


@pytest.mark.parametrize(
    ("file", "text", "release"),
    [
        ("tzdata.zi", "# version 2025b\nR A 1916 o\n", "2025b"),
        ("tzdata.zi", "# version 2024a-rearguard\n", "2024a"),
        ("tzdata.zi", "# version unknown\n", None),
        ("tzdata.zi", "\ufffd" * 200, None),
        ("+VERSION", "2024a\n", "2024a"),
        ("zone.tab", "# tzdb 2024a\n", None),
    ],
)
def test_release_of_a_directory_is_in_a_first_line(
    tmp_path: Path, file: str, text: str, release: str | None
) -> None:
    (tmp_path / file).write_text(text, "utf-8")

    assert DirectoryOfZones(tmp_path).release == release


@pytest.mark.usefixtures("system")
def test_zone_that_the_newest_data_lack_keeps_its_release(system: Path) -> None:
    (system / "Vendor").write_bytes((system / "Europe/Berlin").read_bytes())

    assert load_zone("Vendor").release == OLD_RELEASE


@pytest.mark.usefixtures("system")
def test_zones_are_equal_by_name_and_release() -> None:
    new_zone, old_zone = (
        load_released_zone("Europe/Berlin", release) for release in (NEW_RELEASE, OLD_RELEASE)
    )

    assert {new_zone, old_zone, load_zone("Europe/Berlin")} == {new_zone, old_zone}
    assert new_zone not in {old_zone, zoneinfo.ZoneInfo("Europe/Berlin")}
    assert [pickle.loads(pickle.dumps(zone)) for zone in (new_zone, old_zone)] == [  # noqa: S301
        new_zone,
        old_zone,
    ]


@pytest.mark.parametrize("without", ["", WITHOUT_PACKAGE], ids=["beside the package", "alone"])
def test_zone_travels_with_its_release(system: Path, without: str) -> None:
    """A process that has several releases takes the sender's, also if it is older."""
    zone = pickle.dumps(load_released_zone("America/Vancouver", OLD_RELEASE))
    code = (
        f"{without}import pickle; from noted_time.values import *; "
        f"print(format_in_zone({NOVEMBER}, parse_zone(pickle.loads({zone!r}))))"
    )

    assert print_in_process(code, system) == OLD_TIME


def test_process_without_the_release_of_a_zone_refuses_it(system: Path) -> None:
    zone = pickle.dumps(load_zone("America/Vancouver"))
    code = (
        f"{WITHOUT_PACKAGE}import pickle, noted_time\n"
        f"try: pickle.loads({zone!r})\nexcept noted_time.Unreadable as error: print(error)"
    )

    assert print_in_process(code, system) == (
        f"the zone America/Vancouver came from a process with zone data of release {NEW_RELEASE}, "
        f"and this process has {OLD_RELEASE}: install the same version of the Python package "
        "tzdata for both"
    )
