"""The release of Spark that each part needs, and the errors with an older or a newer one."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import spark_integration
from noted_time import Rejected
from spark_integration.session.versions import (
    ACCEPTING_VARIABLE,
    NEEDED_RELEASES,
    UNIVERSAL_CALL,
    SparkTooNew,
    SparkTooOld,
    require,
)
from tests.support.spark_versions import format_release

ROOT = Path(__file__).resolve().parents[2]
RUNNING = {"3.5.9": (3, 5), "4.0.5": (4, 0), "4.1.4": (4, 1), "4.2.1": (4, 2), "4.3.0": (4, 3)}


@pytest.mark.parametrize("running", RUNNING)
def test_missing_feature_of_a_spark_names_the_alternative(running: str) -> None:
    """The error names the request, the release it needs, and the running one."""
    refusals = {}
    for feature in (*spark_integration.__all__, *NEEDED_RELEASES):
        try:
            require(feature, running)
        except SparkTooOld as error:
            refusals[feature] = str(error)

    assert refusals.keys() == {name for name, n in NEEDED_RELEASES.items() if n > RUNNING[running]}
    for feature, sentence in refusals.items():
        needed_release = format_release(NEEDED_RELEASES[feature])
        begin = (
            f"{feature} needs PySpark {needed_release} or newer, and {running} runs here; "
            "with this one, "
        )
        assert sentence == begin + UNIVERSAL_CALL


def test_features_of_older_spark_need_no_python_sources() -> None:
    """Spark has Python sources since 4.0, and some features do not need them."""
    older = [name for name in spark_integration.__all__ if name not in NEEDED_RELEASES]
    program = f"""
import sys
sys.modules.update({{"pyspark.sql.datasource": None, "pyspark.sql.streaming.datasource": None}})
import tests.spark.test_topic_marks
from spark_integration import {", ".join(older)}
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_unsupported_old_spark_is_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is an ImportError, and Rejected as well."""
    monkeypatch.setattr(pyspark, "__version__", "3.4.4+amzn-0")

    with pytest.raises(
        ImportError, match=r"^\w+ needs PySpark 3\.5 or newer, and 3\.4\.4\S+ runs here$"
    ):
        from spark_integration import PositionListener  # noqa: F401, PLC0415 - the act
    with pytest.raises(Rejected):
        _ = spark_integration.read_noted_kafka


@pytest.mark.parametrize("accepted", ["", "4.5"])
def test_untested_newer_spark_is_refused_with_the_option(
    monkeypatch: pytest.MonkeyPatch, accepted: str
) -> None:
    """Another accepted release does not count. Exactness depends on Spark's plans."""
    monkeypatch.setenv(ACCEPTING_VARIABLE, accepted)

    with pytest.raises(SparkTooNew) as caught:
        require("read_noted_kafka", "4.4.0.dev1")

    assert str(caught.value) == (
        "noted-time is tested with PySpark up to 4.3, and 4.4.0.dev1 may plan queries so that rows "
        "are lost: install PySpark 4.3, or set NOTED_TIME_UNTESTED_SPARK=4.4 to accept the risk"
    )


def test_accepted_newer_spark_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error's variable names the release."""
    monkeypatch.setattr(pyspark, "__version__", "4.4.0.dev1")
    monkeypatch.setenv("NOTED_TIME_UNTESTED_SPARK", "4.4")

    assert spark_integration.read_noted_kafka.__name__ == "read_noted_kafka"
    assert spark_integration.PositionListener.__name__ == "PositionListener"
