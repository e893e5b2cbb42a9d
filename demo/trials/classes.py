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
    """Return the program that runs Java."""
    return tool("java") or "java"


def tool(name: str) -> str | None:
    """Return a program of JAVA_HOME, or else of the PATH, if there is one."""
    home = os.environ.get("JAVA_HOME", "")
    return shutil.which(Path(home, "bin", name)) or shutil.which(name)
