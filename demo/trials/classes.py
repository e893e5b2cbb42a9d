"""The Java that runs, and archives of the classes that Spark and Kafka load.

With these, they start in half the CPU time.

Java ignores one that is missing, or that it cannot use, such as another Java's. The tests make them
once in an environment, beside the jars.
"""

import os
import shutil
import sys
from pathlib import Path

SPARK = Path(sys.prefix, "classes", "spark.jsa")
KAFKA = SPARK.with_name("kafka.jsa")


def read(archive: Path) -> str:
    """Return the options that have Java read an archive, if there is one, and not mention it."""
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable"


def java() -> str:
    """Return the program of JAVA_HOME, or else of the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"
