"""Which Spark each part needs, and what the user of an older or a newer one reads."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import spark_integration
from noted_time import Rejected
from spark_integration.session.versions import (
    ALTERNATIVE_CALLS,
    NEEDED_RELEASES,
    NEWEST,
    OLDEST,
    UNIVERSAL_CALL,
    SparkTooOld,
    require,
)

ROOT = Path(__file__).resolve().parents[2]
RUNNING = {"3.5.9": (3, 5), "4.0.5": (4, 0), "4.1.4": (4, 1), "4.2.1": (4, 2), "4.3.0": (4, 3)}


@pytest.mark.parametrize("running", RUNNING)
def test_what_a_spark_lacks_is_refused_in_one_sentence_with_what_it_has(running: str) -> None:
    """The sentence has what was asked, the version that it needs, and the one that runs."""
    refused = {}
    for asked in (*spark_integration.__all__, *NEEDED_RELEASES):
        try:
            require(asked, running)
        except SparkTooOld as error:
            refused[asked] = str(error)

    assert refused.keys() == {name for name, n in NEEDED_RELEASES.items() if n > RUNNING[running]}
    for asked, sentence in refused.items():
        needed = ".".join(map(str, NEEDED_RELEASES[asked]))
        begin = f"{asked} needs PySpark {needed} or newer, and {running} runs here; with this one, "
        assert sentence == begin + ALTERNATIVE_CALLS.get(asked, UNIVERSAL_CALL)


def test_what_an_older_spark_can_do_is_imported_without_its_python_sources() -> None:
    """Spark has Python sources since 4.0, and not all of this package needs them."""
    older = [name for name in spark_integration.__all__ if name not in NEEDED_RELEASES]
    program = f"""
import sys
sys.modules.update({{"pyspark.sql.datasource": None, "pyspark.sql.streaming.datasource": None}})
import tests.spark.test_topic_marks
from spark_integration import {", ".join(older)}
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_a_spark_older_than_all_is_refused_whatever_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it is imported; so the error is one of imports and one of ours."""
    monkeypatch.setattr(pyspark, "__version__", "3.4.4+amzn-0")

    with pytest.raises(
        ImportError, match=r"^\w+ needs PySpark 3\.5 or newer, and 3\.4\.4\S+ runs here$"
    ):
        from spark_integration import PositionListener  # noqa: F401, PLC0415 - the act
    with pytest.raises(Rejected):
        _ = spark_integration.read_noted_log


def test_a_newer_spark_works_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A minor release breaks little, and who upgrades Spark could not fix what is refused."""
    monkeypatch.setattr(pyspark, "__version__", "4.4.0.dev1")

    assert spark_integration.read_noted_log.__name__ == "read_noted_log"
    assert spark_integration.PositionListener.__name__ == "PositionListener"
    oldest, newest = (".".join(map(str, each)) for each in (OLDEST, NEWEST))
    tested = f"noted-time is tested with PySpark {oldest} to {newest}, and 4.4.0.dev1 runs here"
    assert caplog.messages == [tested]
