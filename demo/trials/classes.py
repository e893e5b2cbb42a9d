"""Archives of the classes that Spark and Kafka load: with them, they start in half the CPU time.

Java ignores one that is missing, or that it cannot use, such as another Java's. The tests make them
once in an environment, beside the jars.
"""

import sys
from pathlib import Path

SPARK = Path(sys.prefix, "classes", "spark.jsa")
KAFKA = SPARK.with_name("kafka.jsa")


def read(archive: Path) -> str:
    """Return the options that have Java read an archive, if there is one, and not mention it."""
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable"
