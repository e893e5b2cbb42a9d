"""The jars with which Spark reads Kafka: which they are, where to get them, whether Spark has them.

They come from a Maven repository, by the Ivy that PySpark brings, and are checked against checksums
that are part of this package.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from threading import Thread
from typing import IO

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from noted_time import Rejected, Unreachable
from spark_integration.session.settings import setting
from spark_integration.session.versions import OLDEST, release_of

DOWNLOAD_S = 60.0
"""How long Ivy may print nothing before it is ended: it prints a dot for each part of a file."""

JARS_NAMED = 4
"""How many jars an error names at most."""

FETCHED = re.compile(rb"\[SUCCESSFUL \] \S+#(\S+);(\S+)!")
IVY = """<ivy-module version="2.0">
  <info organisation="noted-time" module="jars"/>
  <dependencies>
{dependencies}  </dependencies>
</ivy-module>
"""
DEPENDENCY = """    <dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}"
                transitive="false" conf="default->master"/>
"""
ELSEWHERE = (
    "without access to Maven's central repository, pass ivy_settings=FILE (on the command line "
    "--ivy-settings) that names another, or copy them into the directory"
)


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar of a Maven repository, and the SHA-256 of its bytes."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its name in a directory."""
        return f"{self.name}-{self.version}.jar"

    def is_in(self, directory: Path) -> bool:
        """Return whether the directory has it, unchanged."""
        file = directory / self.file
        if not file.exists():
            return False
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == self.sha256


PARTS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13"),
    ("org.apache.kafka", "kafka-clients"),
    ("org.apache.commons", "commons-pool2"),
)
"""What Spark needs for Kafka, here for its Scala since release 4.0."""

CHECKSUMS = {
    (3, 5): (
        ("3.5.7", "184f8bd4a3cd22299c49090d88b894f81fd7546b4ee64879519a0d76a685dbb8"),
        ("3.5.7", "9701914db5c6d09628b58d2d2c1ccd2c9ea28f32f83dd6cb21f98b8237531ff4"),
        ("3.4.1", "9d0a9058c8ede79db6e54ae378ed16fe8d1bead2894635a4aa6aa0b7981668c6"),
        ("2.11.1", "ea0505ee7515e58b1ac0e686e4d1a5d9f7d808e251a61bc371aa0595b9963f83"),
    ),
    (4, 0): (
        ("4.0.4", "b2f7b3a4fbf292b5bf10bd4dd6af301eded9c9985b16239b407401d66dbc8a25"),
        ("4.0.0", "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"),
        ("3.9.1", "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9"),
        ("2.12.0", "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b"),
    ),
    (4, 1): (
        ("4.1.3", "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6"),
        ("4.1.1", "e510adc37b03d01d0a190d0dab472b5538e05eaa77454f7e9477156d7a6820ae"),
        ("3.9.1", "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9"),
        ("2.12.1", "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef"),
    ),
    (4, 2): (
        ("4.2.0", "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705"),
        ("4.0.0", "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"),
        ("3.9.2", "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8"),
        ("2.13.1", "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f"),
    ),
}
"""Version and SHA-256 of each, from which release of Spark on: not all were published for all."""

NOT_FOUND = re.compile("Failed to find data source|NoClassDefFoundError")
GIVEN = re.compile(r"spark-sql-kafka-0-10_[\d.]+[-:](\d[\w.-]*)")


def connector_of(spark: str) -> tuple[Jar, ...]:
    """Return the jars with which a version of Spark reads Kafka.

    >>> [jar.file for jar in connector_of("3.5.9")][::3]
    ['spark-sql-kafka-0-10_2.12-3.5.7.jar', 'commons-pool2-2.11.1.jar']
    >>> connector_of("4.3.0") == connector_of("4.2.1")
    True
    """
    release = max(each for each in CHECKSUMS if each <= max(release_of(spark), OLDEST))
    scala = "_2.12" if release < (4, 0) else "_2.13"
    parts = zip(PARTS, CHECKSUMS[release], strict=True)
    return tuple(Jar(group, name.replace("_2.13", scala), *of) for (group, name), of in parts)


CONNECTOR = connector_of(pyspark.__version__)


def say(sentence: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(f"{sentence}\n")


def spark_jars(directory: str | Path | None = None) -> str:
    """Return the value of Spark's setting `spark.jars` with which it reads Kafka.

    They fit the PySpark that runs, and are fetched first if the directory lacks them, 10 MB; by
    default it is `noted-time/spark-jars` in the user's cache. Set it before the session starts:
    ``SparkSession.builder.config("spark.jars", spark_jars())``. Raises what `fetch` raises.
    """
    return ",".join(map(str, fetch(CONNECTOR, Path(directory or default_directory()))))


def check_connector(spark: SparkSession) -> None:
    """Raise `Rejected`, with the remedy, if this session finds no Kafka source.

    One of another Spark may load, and fail only once a query runs: so its version is looked at, if
    it is among the session's settings. What else Spark fails with is raised as it is.
    """
    jars = connector_of(spark.version)
    takes = (
        f"which takes four jars: {', '.join(jar.file for jar in jars)}; fetch them by `noted-time "
        "spark-jars`, and start the session with `spark.jars` as it prints"
    )
    settings = [setting(spark, f"spark.jars{which}", "") for which in ("", ".packages")]
    for found in GIVEN.finditer(f"{settings}"):
        if release_of(found[1]) not in {release_of(spark.version), release_of(jars[0].version)}:
            raise Rejected(f"{found[0]} does not fit Spark {spark.version}, {takes}")
    reader = spark.read.format("kafka").option("subscribe", "any")
    try:
        reader.option("kafka.bootstrap.servers", "127.0.0.1:1").load().schema  # noqa: B018 - asks
    except (PySparkException, Py4JError) as error:  # the latter if `kafka-clients` is missing
        if not NOT_FOUND.search(str(error)):
            raise
        raise Rejected(f"this Spark session cannot load a Kafka source, {takes}") from error


def default_directory() -> Path:
    """Return the directory of the user's cache in which the jars are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "noted-time", "spark-jars")


def brought_directory() -> Path:
    """Return the directory of the jars that PySpark brings."""
    return Path(pyspark.__file__).parent / "jars"


def fetch(
    jars: Sequence[Jar],
    directory: Path,
    *,
    ivy_settings: Path | None = None,
    say: Callable[[str], None] = say,
    patience_s: float = DOWNLOAD_S,
) -> list[Path]:
    """Return the paths of jars, after fetching those that the directory does not have unchanged.

    `ivy_settings` is a file with settings of Ivy, which may name another repository than Maven's
    central one. `say` is called with a line for each jar. Raises `Rejected` if there is no Java, if
    the directory cannot be written to, or if what was fetched has another checksum, of which
    nothing is kept; `Unreachable` if a jar could not be fetched, also if nothing came for
    `patience_s`.
    """
    directory = directory.absolute()
    missing = [jar for jar in jars if not jar.is_in(directory)]
    if missing:
        say(f"Fetching {len(missing)} jars into {directory}.")
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".fetching-", dir=directory) as name:
                scratch = Path(name)
                pieces = _output(_ivy(missing, scratch, ivy_settings), scratch, patience_s)
                printed = _followed(pieces, len(missing), say)
                _keep(missing, scratch, directory, printed)
        except OSError as error:
            raise Rejected(f"{directory} cannot be written to: {error.strerror}") from error
    return [directory / jar.file for jar in jars]


def _ivy(jars: Sequence[Jar], scratch: Path, settings: Path | None) -> list[str]:
    """Return the command that puts the jars into a directory, whatever they contain."""
    dependencies = "".join(DEPENDENCY.format(jar=jar) for jar in jars)
    (scratch / "ivy.xml").write_text(IVY.format(dependencies=dependencies))
    brought = brought_directory()
    path = os.pathsep.join([*map(str, brought.glob("ivy-*.jar")), str(brought / "*")])
    begun = [java(), f"-Divy.default.ivy.user.dir={scratch / 'cache'}", "-cp", path]
    own = ["-settings", str(settings.absolute())] if settings else []
    kept = ["-types", "jar", "bundle", "-retrieve", "[artifact]-[revision].[ext]"]
    return [*begun, "org.apache.ivy.Main", *own, "-ivy", "ivy.xml", *kept]


def _output(words: Sequence[str], directory: Path, patience_s: float) -> Iterator[bytes]:
    """Yield what a program prints; it is ended if it prints nothing for `patience_s`."""
    with subprocess.Popen(  # noqa: S603 - Java, with the words of `_ivy`
        words,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    ) as process:
        pieces: SimpleQueue[bytes] = SimpleQueue()
        Thread(target=_pass_on, args=(process.stdout, pieces), daemon=True).start()
        try:
            while piece := pieces.get(timeout=patience_s):
                yield piece
        except Empty:
            yield f"\nthe repository sent nothing for {patience_s:g} s".encode()
        finally:
            process.kill()


def _pass_on(output: IO[bytes], pieces: SimpleQueue[bytes]) -> None:
    while piece := output.read(1 << 16):
        pieces.put(piece)
    pieces.put(b"")


def _followed(pieces: Iterable[bytes], jars: int, say: Callable[[str], None]) -> str:
    """Return what Ivy prints, and say meanwhile which jar was fetched."""
    printed, count = b"", 0
    for piece in pieces:
        begin = printed.rfind(b"\n") + 1
        printed += piece
        for found in FETCHED.finditer(printed, begin, printed.rfind(b"\n") + 1):
            count += 1
            say(f"{count}/{jars}  {found[1].decode()} {found[2].decode()}")
    return printed.decode(errors="replace")


def _keep(jars: Sequence[Jar], scratch: Path, directory: Path, printed: str) -> None:
    """Move the jars into the directory, all or none."""
    absent = [jar.file for jar in jars if not (scratch / jar.file).exists()]
    if absent:
        more = f" and {len(absent) - JARS_NAMED} more" if len(absent) > JARS_NAMED else ""
        named = ", ".join(absent[:JARS_NAMED]) + more
        raise Unreachable(f"{named} could not be fetched ({_cause(printed)}): {ELSEWHERE}")
    wrong = [jar.file for jar in jars if not jar.is_in(scratch)]
    if wrong:
        raise Rejected(
            f"{', '.join(wrong)}: checksum mismatch, nothing was kept; "
            "check the repository and any proxy"
        )
    for jar in jars:
        (scratch / jar.file).replace(directory / jar.file)


def _cause(printed: str) -> str:
    r"""Return what Ivy names as an error, or did not find, or else what it printed last.

    >>> _cause(":: a#b;1: not found\n:::: ERRORS\n\trefused\n\n:: USE"), _cause("\nno Java\n")
    ('refused', 'no Java')
    """
    found = re.search(r":::: ERRORS\s+(.+)", printed) or re.search(r":: (\S+: not found)", printed)
    return found[1] if found else printed.strip().rpartition("\n")[2]


def java() -> str:
    """Return the program of JAVA_HOME, or else of the PATH; raises `Rejected` if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(Path(home, "bin", "java") if home else "java")
    if found is None:
        raise Rejected("this takes Java 17 or newer: set JAVA_HOME, or add java to the PATH")
    return found
