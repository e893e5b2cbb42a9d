"""Results of stateful operators whose driver is killed (-9) between each two batches."""

from collections.abc import Iterator
from itertools import product

import pytest

from tests.support.killed_operators import PLACES, TRUTHS, WAYS, Trial
from tests.support.quick_python import quick_python
from tools.trials.kafka import Broker
from tools.trials.served import Served

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, pytest.mark.timeout(2 * 3600)]


@pytest.fixture(scope="module")
def trial(
    broker: Broker, served: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trial]:
    """Return the end of a trial; its programs share a Python with imported modules."""
    directory = tmp_path_factory.mktemp("operators")
    with quick_python() as python, Trial(broker, served, directory, python) as trial:
        trial.run()
        yield trial


@pytest.mark.parametrize("operator", TRUTHS)
@pytest.mark.parametrize("marks", WAYS)
def test_killed_drivers_write_each_result_once(trial: Trial, marks: str, operator: str) -> None:
    """As counted from all records: no row is missing, late or repeated, and each timer fires."""
    assert trial.find_broken(marks, operator) == []


def test_drivers_were_killed_at_every_place(trial: Trial) -> None:
    """A batch is planned, has written its output, or is committed."""
    assert trial.killed.keys() == set(product(WAYS, PLACES))
