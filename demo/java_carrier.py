"""One carrier in Java as a process, with the lines and answers of `kafka_carrier`.

Its producer is the plain `demo/trials/LineProducer.java`. The interceptor among its settings
notes the newest departure that was sent less a delay, and a stop is answered once that is durable.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import httpx
import pyspark

from demo.kafka_carrier import PATIENCE_S, answer, stop_of
from demo.replay import DOMAIN, STREAM
from demo.surroundings import KAFKA, ROOT, SurroundingsError
from spark_integration.session.jars import java

if TYPE_CHECKING:
    from demo.stage import Stage

QUICK = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOOK_S = 0.002
SETTINGS = """bootstrap.servers={stage.bootstrap}
interceptor.classes=notedtime.NotedTimeInterceptor
noted.time.url={stage.url}
noted.time.writer={carrier}
noted.time.order=stamps
noted.time.delay.ms={delay_ms}
noted.time.period.ms=10
noted.time.timeout.ms=86400000
"""
"""By `stamps` it notes nothing while nothing lands, as at night: time waits for it for a day."""


def program(stage: Stage, carrier: str, delay_ms: int) -> list[str]:
    """Return this module and what it is given; its producer is built first.

    Raises `SurroundingsError` if that fails.
    """
    settings = stage.directory / f"{carrier}.properties"
    settings.write_text(SETTINGS.format(stage=stage, carrier=carrier, delay_ms=delay_ms))
    build = [sys.executable, "run", "java"]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    if built.returncode:
        raise SurroundingsError(f"the interceptor could not be built:\n{built.stderr}")
    jar = Path(built.stdout.strip())
    logging = (Path(pyspark.__file__).parent / "jars").glob("slf4j-api-*.jar")
    path = os.pathsep.join(map(str, [jar, jar.parent, *logging, KAFKA / "broker" / "*"]))
    writer = f"{stage.url}/v1/streams/{STREAM}/writers/{carrier}"
    return ["demo.java_carrier", path, str(settings), writer]


def fly(path: str, settings: str, writer: str) -> None:
    """Pass on what the lines say; at their end the producer goes idle."""
    words = [java(), *QUICK, "-cp", path, "LineProducer", settings, STREAM]
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as producer,
        httpx.Client(trust_env=False) as calls,
    ):
        rows, deliveries = cast("tuple[IO[str], IO[str]]", (producer.stdin, producer.stdout))
        answer()
        for line in sys.stdin:
            stop = stop_of(line)
            for departure, record in stop.flights:
                rows.write(f"{departure}\t{stop.partition}\t{record}\n")
            if stop.flights:
                rows.write("\n")
                rows.flush()
                deliveries.readline()
                _wait_for_note(calls, writer, stop.time)
            answer()


def _wait_for_note(calls: httpx.Client, writer: str, at_least: int | None) -> None:
    """Wait until the writer has noted that time; raises `TimeoutError` if it does not."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        answered = calls.get(writer)
        noted = answered.json()["times"].get(DOMAIN) if answered.is_success else None
        if at_least is None or (noted is not None and noted >= at_least):
            return
        time.sleep(LOOK_S)
    raise TimeoutError(f"the interceptor has not noted {at_least}")


if __name__ == "__main__":
    fly(*sys.argv[1:])
