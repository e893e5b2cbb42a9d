"""Uses an extra once, in an environment with this extra.

`smoke.py EXTRA WHEEL`; the base install is the extra "none".
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from noted_time import NotedTimeError, StreamCut
from noted_time_extensions.tables import complete_to
from reader_client import ReaderClient
from writer_client import WriterClient

COMMAND = str(Path(sys.executable).with_name("noted-time"))
FILES = "noted_time_extensions.files"
NOWHERE = "http://127.0.0.1:9"
PATIENCE_S = 60.0


def base(wheel: str) -> None:
    """There are the clients, and the command says what to install for more."""
    use_all("")
    process = subprocess.run([COMMAND], capture_output=True, text=True, check=False)
    assert (process.returncode, f'pip install "{wheel}[cli]"' in process.stderr) == (2, True), (
        process
    )
    assert find_spec("typer") is None


def cli(_: str) -> None:
    """The command calls a controller; here none answers."""
    words = [COMMAND, "wait", "flights", "5", "--timeout", "0s", "--url", NOWHERE]
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    assert process.returncode == 69, process
    output = subprocess.check_output([COMMAND, "--version"], text=True)
    assert output.splitlines()[0] == f"noted-time {version('noted-time')}", output


def controller(_: str) -> None:
    """A writer notes to a new controller, and a reader gets the mark."""
    with serving() as url:
        httpx.put(f"{url}/v1/streams/flights", json={}, trust_env=False).raise_for_status()
        with WriterClient("flights", "berlin", controller=url) as berlin:
            berlin.note_time(1_357_034_400_000, {0: 10})
            berlin.flush()
            with ReaderClient("flights", controller=url) as reader:
                mark = reader.wait_for(1_357_034_400_000, PATIENCE_S)
        page = httpx.get(url, trust_env=False, follow_redirects=True)
    assert (mark.lower, mark.cut) == (1_357_034_400_000, StreamCut({0: 10})), mark
    assert "noted" in page.text, page.text


def analysis(_: str) -> None:
    """A file is judged, and its curve is drawn."""
    with TemporaryDirectory() as directory:
        rows = Path(directory, "rows.csv")
        picture = Path(directory, "loss.png")
        rows.write_text("at\n1357034400000\n1357034400001\n")
        words = [COMMAND, "analyse", "files", str(rows), "--time", "at", "--json"]
        analysis = json.loads(subprocess.check_output([*words, "--picture", str(picture)]))
        assert picture.stat().st_size > 0
    assert (analysis["rows"], analysis["least_delay_without_loss_ms"]) == (2, 0), analysis


def kafka(_: str) -> None:
    """Producers, consumers, relays and observers can be imported."""
    use_all("kafka")


def log_files(_: str) -> None:
    """The writers of the file log can be imported."""
    use_all("files")


def otel(_: str) -> None:
    """What makes and sends spans can be imported."""
    import_module("opentelemetry.sdk.trace.export")


def spark(_: str) -> None:
    """All that the newest Spark can do can be imported."""
    for package in ("spark_integration", FILES):
        module = import_module(package)
        for name in module.__all__:
            getattr(module, name)
    import_module("pyspark.sql.connect.session")


def delta(_wheel: str) -> None:
    read_absent_table("delta:no-such-table")


def iceberg(_wheel: str) -> None:
    read_absent_table("iceberg:no-such-catalog.flights")


def read_absent_table(url: str) -> None:
    """The library reads the claim of an absent table, and reports that it is absent."""
    try:
        complete_to(url)
    except NotedTimeError:
        return
    raise AssertionError(f"{url} exists")


def use_all(extra: str) -> None:
    """Import each name of the clients that needs an extra."""
    for package in ("reader_client", "writer_client", "noted_time.kafka", FILES):
        module = import_module(package)
        names = getattr(module, "OPTIONAL", None) or module.LAZY_IMPORTS
        for name, (_, needed_extra) in names.items():
            if needed_extra == extra:
                getattr(module, name)


@contextmanager
def serving() -> Iterator[str]:
    """Run a controller while the block lasts; yields its URL."""
    with TemporaryDirectory() as directory:
        words = [COMMAND, "serve", "--port", "0", "--database", f"sqlite:///{directory}/own.db"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            try:
                events = (json.loads(line) for line in process.stderr)
                yield next(str(event["url"]) for event in events if event["event"] == "serving")
            finally:
                process.terminate()
                process.communicate(timeout=PATIENCE_S)


def main(extra: str, wheel: str) -> None:
    """Use one extra."""
    {
        "none": base,
        "analyse": analysis,
        "cli": cli,
        "controller": controller,
        "delta": delta,
        "files": log_files,
        "iceberg": iceberg,
        "kafka": kafka,
        "otel": otel,
        "spark": spark,
    }[extra](wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
