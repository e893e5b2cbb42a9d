"""Groups the tests that share a process of `./run test`, and orders the groups."""

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).resolve().parents[2]

IN_JAVA = ("tests/kafka/test_interceptor.py", "tests/kafka/test_connect.py")
"""The tests of Kafka that start programs in Java, a third of the time of all tests of Kafka."""

OBSERVED = (
    *(f"tests/kafka/test_{name}.py" for name in ("hidden_records", "looks", "topics")),
    "tests/kafka/test_relay.py",
    "tests/kafka/test_commands.py",
    "tests/kafka/test_transcripts.py",
)
"""The tests of Kafka that read a topic from outside, half of the other tests of Kafka."""

LONG = {
    "browser",
    "kafka",
    "kafka observed",
    "kafka and java",
    "tests/trials/simulation/test_schedules.py",
    "tests/trials/test_record.py",
}
"""The longest groups after Spark's."""


class Together(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Gives one process all tests of a group, such as a file."""

    def _split_scope(self, nodeid: str) -> str:
        return find_group(nodeid)


@cache
def find_group(nodeid: str) -> str:
    """Return the group of a test.

    >>> find_group("tests/browser/test_acts.py::a"), find_group("tests/core/test_cut.py::a")
    ('browser', 'tests/core/test_cut.py')

    Two processes start Spark's session, and one of them has the broker that it reads from.

    >>> find_group("tests/spark/test_zones.py::a"), find_group("tests/spark/test_guides.py::a")
    ('spark', 'spark and kafka')
    >>> find_group("tests/spark/test_release.py::a")
    'tests/spark/test_release.py'

    Tests of Kafka share three processes, each with a broker. Tests that start Spark or a cluster
    share Spark's processes.

    >>> find_group("tests/kafka/test_producer.py::a"), find_group("tests/kafka/test_connect.py::a")
    ('kafka', 'kafka and java')
    >>> find_group("tests/kafka/test_relay.py::a")
    'kafka observed'
    """
    file = nodeid.partition("::")[0]
    if re.search("(^|/)tests/cluster/", file):
        return "spark cluster"
    if re.search("(^|/)tests/(spark|connectors)/", file):
        text = (ROOT / file).read_text()
        if "mark.spark" not in text:
            return file
        return "spark and kafka" if re.search("Broker|[.]broker", text) else "spark"
    if "kafka" in file:
        if file in IN_JAVA:
            return "kafka and java"
        is_observed = file in OBSERVED or "/observe/tests/" in file
        return "kafka observed" if is_observed else "kafka"
    waiting = ("tests/browser/", "tests/operations/")
    return file.split("/")[1] if file.startswith(waiting) else file


def rank_test(nodeid: str) -> int:
    """Return a sort key that puts the longest groups first."""
    group = find_group(nodeid)
    if group.startswith("spark"):
        return 0
    return 1 if group in LONG else 2
