"""Java for tests, benchmarks and the demo: the interceptor, and producers that use it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from noted_time import NotedTimeError, Rejected
from tools.trials import broker, classes
from tools.trials.maven import fetch, list_jars
from tools.trials.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "java", Path(__file__).parent)
BUILT = ROOT / "build" / "java"
INTERCEPTOR = "noted-time-interceptor.jar"
MANIFEST = """Manifest-Version: 1.0
Automatic-Module-Name: notedtime
Implementation-Title: noted-time interceptor
Implementation-Version: {version}
"""
WHEN = (1980, 2, 1, 0, 0, 0)
"""The time of every file in a jar; some tools refuse the first that a zip file can have."""

READABLE = 0o644 << 16
OLDEST = "11"
"""The oldest Java that runs the jars."""

MISSING = "needs a JDK, 11 or newer: apt install default-jdk-headless"
CLIENT = tuple(jar for jar in list_jars(broker.JARS) if jar.name == "kafka-clients")
VERSIONS = ("3.1", "3.9", "4.3")
"""The versions of Kafka's client that are tested: the oldest, Spark's, and the broker's."""


def compiler() -> str | None:
    """Return the Java compiler, which a runtime lacks."""
    return classes.tool("javac")


def class_path(version: str = "4.3") -> str:
    """Return the class path of a producer with the interceptor, for a version of Kafka's client.

    The interceptor and `LineProducer` follow a broker's classes, so a producer of its version
    starts with the broker's archive.
    """
    own_paths = [interceptor_jar(), BUILT]
    if version == "4.3":
        return os.pathsep.join(map(str, [broker.HOME / "broker" / "*", *own_paths]))
    jars = sorted((broker.HOME / "broker").glob("*.jar"))
    clients = [*broker.HOME.glob(f"[!b]*/kafka-clients-{version}.*.jar")]
    if not clients:
        raise Rejected(f"no kafka-clients {version}: `./run kafka --fetch` installs it")
    rest = (jar for jar in jars if not jar.name.startswith("kafka"))
    return os.pathsep.join(map(str, [*own_paths, *clients, *rest]))


def interceptor_jar() -> Path:
    """Return the interceptor's jar, built if its sources have changed.

    Raises `Rejected` without a JDK, and as `fetch` without Kafka's client.
    """
    jar = BUILT / INTERCEPTOR
    sources = sorted(file for folder in SOURCES for file in folder.rglob("*.java"))
    if jar.exists() and jar.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return jar
    BUILT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILT) as name:
        scratch = Path(name)
        compile_into(scratch, sources)
        for file in scratch.glob("*.class"):
            file.replace(BUILT / file.name)
        packed_jar = scratch / INTERCEPTOR
        pack(packed_jar, scratch, sorted(scratch.rglob("*/*.class")))
        packed_jar.replace(jar)  # last, and at once: other processes may use it
    return jar


def interceptor(url: str, writer: str) -> dict[str, object]:
    """Return the settings of a producer that notes twenty times a second."""
    return {
        "interceptor.classes": "notedtime.NotedTimeInterceptor",
        "noted.time.url": url,
        "noted.time.writer": writer,
        "noted.time.period.ms": 50,
    }


def compile_into(directory: Path, sources: list[Path]) -> None:
    """Compile for the oldest Java, or raise `Rejected`."""
    javac = compiler()
    if javac is None:
        raise Rejected(
            "javac was not found: this Java is a runtime, which cannot build the interceptor. "
            "Install a JDK, 11 or newer (apt install default-jdk-headless), and set JAVA_HOME to it"
        )
    run_tool(Path(javac), "-Xlint:all,-classfile", "-Werror", "-d", str(directory), *sources)


def run_tool(tool: Path, *words: str | Path) -> None:
    """Run a tool of the JDK for the oldest Java, with Kafka's client; raises `Rejected`."""
    (client,) = fetch(CLIENT, broker.HOME / "broker")
    command = [tool, "--release", OLDEST, "-encoding", "UTF-8", "-cp", client, *words]
    process = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if process.returncode:
        raise Rejected(f"{tool} failed:\n{process.stdout}{process.stderr}")


def pack(jar: Path, directory: Path, files: Iterable[Path]) -> None:
    """Pack files into a jar whose bytes depend only on theirs."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    contents = {"META-INF/MANIFEST.MF": MANIFEST.format(version=version).encode()}
    contents["META-INF/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    contents |= {file.relative_to(directory).as_posix(): file.read_bytes() for file in files}
    with zipfile.ZipFile(jar, "w") as zip_file:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, WHEN)
            entry.external_attr = READABLE
            zip_file.writestr(entry, content, zipfile.ZIP_DEFLATED)


class JavaProducer:
    """A `LineProducer` process with the interceptor among its settings."""

    def __init__(
        self, directory: Path, topic: str, settings: Mapping[str, object], version: str = "4.3"
    ) -> None:
        """Start it, with its settings and log in the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "producer.properties"
        self._log = directory / "log"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        options = [*classes.read(classes.KAFKA).split(), "-cp", class_path(version)]
        words = [classes.java(), *options, "LineProducer", str(file), topic]
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def send(self, *rows: tuple[int | None, str]) -> None:
        """Send records of a timestamp in ms, or none, and a value."""
        assert self.process.stdin is not None
        lines = (f"{'' if time is None else time}\t\t{value}\n" for time, value in rows)
        self.process.stdin.write("".join(lines))
        self.process.stdin.flush()

    def flush(self, records: int = 0) -> int:
        """Send so many records, wait until all are delivered, and return the ns of CPU."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"*{records}\n" if records else "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> int:
        """Close the producer, and return the exit status."""
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.communicate()

    def log(self) -> str:
        return self._log.read_text()


def main() -> int:
    """Build the interceptor, print its path, and return the exit status."""
    try:
        jar = interceptor_jar()
    except NotedTimeError as error:
        sys.stderr.write(f"run java: {error}\n")
        return 1
    sys.stdout.write(f"{jar}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
