"""A Spark cluster for trials: `./run cluster`. Its files stay in the clone."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from demo import replay
from demo.data import read_flights
from demo.kafka import start_carriers
from demo.schedule import steps
from demo.surroundings import controller, require_java
from noted_time import Rejected
from tools.trials import kafka
from tools.trials.cluster import Cluster
from tools.trials.maven import say
from tools.trials.ports import listens, parse_port
from tools.trials.run_kafka import alone, run_until_interrupted
from tools.trials.spark_programs import SparkProgram

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "build" / "cluster"
QUERY = ROOT / "demo" / "on_cluster.py"
LOOK_S = 0.2
LAST_PORT = 65_535
LEAST_MB = 1500
EACH_MB = 700
"""The memory that is needed without workers, and by each worker with its executors."""

PORTS = ("the master", "its page", "the Connect server", "the controller", "the broker")
HOW = """
To submit your program:
  ./run spark-submit --properties-file {properties} hourly.py
To connect from any Python with pyspark[connect]:
  SparkSession.builder.remote("{remote}").getOrCreate()
docs/guides/spark-elsewhere.md has such programs. Ctrl-C ends all of it."""


def main(arguments: Sequence[str]) -> int:
    """Run a cluster and the flights query until Ctrl-C, and return the exit status."""
    options = _parser().parse_args(arguments)
    ended_text = f"a process ended or did not start, see {options.data}"
    return run_until_interrupted("cluster", partial(_run, options), ended_text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./run cluster",
        description="Run a Spark cluster for trials, on this machine alone, and a query on it.",
    )
    parser.add_argument("--kafka", action="store_true", help="the flights in a topic, not a log")
    parser.add_argument("--workers", type=int, default=2, help="how many; 2 by default")
    parser.add_argument(
        "--port",
        type=parse_port,
        default=7077,
        help=f"the first of five: {', '.join(PORTS)}; 7077 by default",
    )
    days = range(1, 32)
    parser.add_argument(
        "--days", type=int, default=3, choices=days, metavar="N", help="of flights, 1 to 31; 3"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="a directory; build/cluster")
    return parser


def _run(options: argparse.Namespace) -> None:
    refuse(options.port, options.workers, available_mb())
    if options.kafka:
        kafka.install()
    with alone(options.data, "cluster"), ExitStack() as stack:
        data = options.data.resolve() / "run"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        say(f"Starting a master, {options.workers} workers and a Connect server takes some 15 s.")
        *_, control, listener = range(options.port, options.port + len(PORTS))
        url = stack.enter_context(controller(data / "noted-time.db", data, port=control))
        parameters = {"url": url, "checkpoint": str(data / "checkpoint")}
        target: Path | kafka.Broker
        if options.kafka:
            target = stack.enter_context(kafka.Broker(data / "kafka", port=listener))
            parameters["bootstrap"] = target.address
        else:
            target = data / "log"
            parameters["root"] = str(target)
        cluster = Cluster(
            data / "spark", workers=options.workers, port=options.port, jars=kafka.connector()
        )
        stack.enter_context(cluster)
        _present(cluster, parameters)
        write_flights(options.days, url, target)
        say("Submitting the flights query. That takes half a minute.")
        _say_result(cluster.submit(QUERY, parameters))
        say(HOW.format(properties=cluster.properties, remote=cluster.remote))
        while True:
            cluster.check()
            time.sleep(LOOK_S)


def refuse(port: int, workers: int, available: int | None) -> None:
    """Raise `Rejected`, with the remedy, if the cluster could not start."""
    if workers < 1:
        raise Rejected("a cluster needs a worker at least: choose --workers 1 or more")
    if not 0 < port <= LAST_PORT - len(PORTS):
        raise Rejected(f"there are no {len(PORTS)} ports from {port} on: choose another --port")
    require_java()
    for used, port_use in enumerate(PORTS, start=port):
        if listens(used):
            raise Rejected(
                f"port {used}, which {port_use} needs, is taken, perhaps by another cluster: "
                f"choose the first of {len(PORTS)} free ones by --port"
            )
    needed_mb = LEAST_MB + EACH_MB * workers
    if available is not None and available < needed_mb:
        raise Rejected(
            f"{workers} workers need {needed_mb:,} MB of free memory, and there are {available:,}: "
            "end something, or choose fewer --workers"
        )


def available_mb(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Return the free memory in MB, or `None` where the system does not say."""
    if not meminfo.exists():
        return None
    match = re.search(r"MemAvailable: +(\d+) kB", meminfo.read_text())
    return int(match[1]) // 1024 if match else None


def _present(cluster: Cluster, parameters: Mapping[str, str]) -> None:
    addresses = {
        "Spark's page": cluster.page,
        "the master": cluster.master,
        "Spark Connect": cluster.remote,
        "the controller": parameters["url"],
    }
    if "bootstrap" in parameters:
        addresses["the broker"] = parameters["bootstrap"]
    else:
        addresses["the file log"] = parameters["root"]
    say("\n".join(f"  {label:<16}{address}" for label, address in addresses.items()))


def write_flights(days: int, url: str, target: Path | kafka.Broker) -> None:
    """Let the carriers write their flights and note, to a log or a topic."""
    flights = read_flights(1, days)
    say(f"{len(flights.carriers)} carriers write {len(flights.landed):,} flights, and note.")
    stops = steps(flights)
    if isinstance(target, Path):
        with replay.start_carriers(flights.carriers, target, url) as carriers:
            replay.replay(stops, carriers.take)
    else:
        with start_carriers(target, url, flights.carriers) as producers:
            replay.replay(stops, producers.take)


def _say_result(driver: SparkProgram) -> None:
    """Wait until the driver ends, and print its counts."""
    result = json.loads(driver.finish())
    say(
        f"It counted {result['flights']:,} flights in {result['hours']:,} hours: "
        f"{result['lost']:,} lost and {result['twice']:,} counts given out twice, against all "
        "that was written."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
