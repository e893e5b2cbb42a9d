"""The Java program, and archives of the classes that Spark and Kafka load.

With these, they start in half the CPU time.

Java ignores a missing or unusable archive. The tests make them once in an environment.
"""

import os
import shutil
import sys
from pathlib import Path

SPARK = Path(sys.prefix, "classes", "spark.jsa")
KAFKA = SPARK.with_name("kafka.jsa")


def read(archive: Path) -> str:
    """Return the options that make Java read an archive silently, if it exists."""
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable"


def java() -> str:
    """Return the Java program."""
    return tool("java") or "java"


def tool(name: str) -> str | None:
    """Return a program of JAVA_HOME or of the PATH, if there is one."""
    home = os.environ.get("JAVA_HOME", "")
    return shutil.which(Path(home, "bin", name)) or shutil.which(name)
