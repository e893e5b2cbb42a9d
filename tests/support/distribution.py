"""Which tests share a process of `./run test`, and which come first in it."""

from xdist.scheduler import LoadFileScheduling

HALF = "tests/spark/test_l"
"""Where the files of the second process begin that starts Spark; in more, its first queries, which
are slow, would be run as often."""


ELSEWHERE = ("tests/benchmarks/test_kafka.py", "tests/examples/test_query.py")
"""The files of other directories with tests in Spark's session: it is started for none of them."""


class Together(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Gives one process all tests of a group, such as a file, half of Spark's or the page's."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return the group of a test.

    >>> group_of("tests/browser/test_acts.py::test_a_hold"), group_of("tests/core/test_cut.py::a")
    ('browser', 'tests/core/test_cut.py')

    Tests of Kafka share one process too, and so a broker, but for those that start Spark, and those
    of a cluster share that.
    """
    file = nodeid.partition("::")[0]
    if file.startswith("tests/spark/"):
        return "spark a to k" if file < HALF else "spark l to z"
    if file in ELSEWHERE:
        return "spark a to k"
    if file.startswith("tests/cluster/"):
        return "spark cluster"
    if "kafka" in file:
        return "kafka"
    return "browser" if file.startswith("tests/browser/") else file


def rank_of(nodeid: str) -> int:
    """Return a key by which the longest groups come first, so that none is left for the end."""
    group = group_of(nodeid)
    return 0 if group.startswith("spark") else 1 if group in {"browser", "kafka"} else 2
