"""The release of Spark that the parts of file logs need."""

import json

import pyspark
import pytest

from noted_time_extensions import files
from noted_time_extensions.files.spark.releases import (
    ALTERNATIVE_CALLS,
    NEEDED_RELEASES,
    require_release,
)
from spark_integration.session.versions import UNIVERSAL_CALL, SparkTooOld, parse_release
from tests.support.spark_table import TABLE


@pytest.mark.parametrize("name", NEEDED_RELEASES)
def test_missing_part_of_a_spark_names_the_alternative(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The import fails with the release that the part needs."""
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")

    with pytest.raises(SparkTooOld) as refusal:
        getattr(files, name)

    needs = f"{name} needs PySpark 4.2 or newer, and 4.1.4 runs here; with this one, "
    assert str(refusal.value) == needs + ALTERNATIVE_CALLS.get(name, UNIVERSAL_CALL)


def test_releases_that_passed_have_the_parts() -> None:
    """The table of results has each part for the releases that it needs, and no older one."""
    table = json.loads(TABLE.read_text())

    for name, needed_release in NEEDED_RELEASES.items():
        passed_releases = {release for release, result in table.items() if name in result["passed"]}
        assert passed_releases == {
            release for release in table if parse_release(release) >= needed_release
        }


def test_options_of_older_spark_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")

    for name in ("Batches", "Columns", "ReadRange"):
        require_release(name)
