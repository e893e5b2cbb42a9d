"""A Kafka broker to try things with: `./run kafka`. Its jars and its data stay in the clone."""

from __future__ import annotations

import argparse
import fcntl
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn

from confluent_kafka import KafkaException

from examples.descendants import end_with_this_process
from noted_time import NotedTimeError, Rejected
from tests.support import kafka, tables
from tests.support.secured_kafka import CA, OWN, SecuredBroker

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "build" / "kafka"
PATIENCE_S = 20.0
"""How long a repository may send nothing: without a network, tests are to start soon."""

LOOK = """./run python -c 'from noted_time.kafka.topic import Topic
print(Topic({{"bootstrap.servers": "{address}"}}, "{topic}").look())'"""


def main(arguments: Sequence[str]) -> int:
    """Fetch the jars, and run a broker until Ctrl-C; returns the exit status."""
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, interrupt)
    end_with_this_process()
    try:
        kafka.install(ivy_settings=given.ivy_settings, patience_s=PATIENCE_S)
        if given.fetch:  # also `./run test`
            tables.install(ivy_settings=given.ivy_settings, patience_s=PATIENCE_S)
        else:
            _run(given.data, given.port, given.topic, is_secured=given.secured)
    except KeyboardInterrupt:
        say("")
    except (NotedTimeError, KafkaException) as error:
        say(f"run kafka: {error}")
        return 1
    except AssertionError:
        say(f"run kafka: the broker ended; {given.data / 'out'} says why")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./run kafka",
        description="Run a Kafka broker for trials, on this machine alone. Its topics stay.",
    )
    parser.add_argument("--port", type=int, default=9092, help="where it listens; 9092 by default")
    parser.add_argument(
        "--topic",
        type=topic,
        action="append",
        default=[],
        metavar="NAME:PARTITIONS",
        help="create a topic unless it is there; may be repeated",
    )
    parser.add_argument("--data", type=Path, default=DATA, help="a directory; build/kafka if none")
    parser.add_argument(
        "--secured",
        action="store_true",
        help="listen on the next two ports, too, for TLS with a login and with a certificate, and "
        "give tokens on the third",
    )
    parser.add_argument("--fetch", action="store_true", help="only fetch the jars, 76 MB")
    parser.add_argument("--ivy-settings", type=Path, metavar="FILE", help="to fetch from elsewhere")
    return parser


def topic(text: str) -> tuple[str, int]:
    """Return the name and the number of partitions of `flights:4`."""
    name, _, partitions = text.partition(":")
    return name, int(partitions or 1)


def _run(
    data: Path, port: int, topics: Sequence[tuple[str, int]], *, is_secured: bool = False
) -> None:
    made = (SecuredBroker if is_secured else kafka.Broker)(data, port=port)
    with closing(socket.socket()) as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise Rejected(f"port {port} is taken, perhaps by another broker: choose one by --port")
    with alone(data, "kafka"), made as broker:
        for name, partitions in topics:
            if name not in broker.topics():
                broker.create(name, partitions)
        say(f"Kafka listens at {broker.address} until Ctrl-C; it keeps its data in {data}.")
        if isinstance(broker, SecuredBroker):
            _say_how(broker)
        found = [f"{name} ({count} partitions)" for name, count in broker.topics().items()]
        say(f"Topics: {', '.join(found) or 'none yet, --topic flights:4 creates one'}.")
        topic = next(iter(broker.topics()), "flights")
        say(
            f"For example, in another terminal:\n{LOOK.format(address=broker.address, topic=topic)}"
        )
        broker.wait()


def _say_how(broker: SecuredBroker) -> None:
    """Show the settings of its secured listeners, whose certificates it leaves here."""
    for file in (CA, OWN):
        shutil.copy(file, file.name)
    for settings in (broker.scram, broker.mutual, broker.bearer):
        shown = (f"  {k}={Path(v).name if 'location' in k else v}" for k, v in settings.items())
        say("\n".join(["It also listens for clients with these settings:", *shown]))
    say(f"Tokens are at {broker.token_url}, for the same user and password.")


@contextmanager
def alone(data: Path, name: str) -> Iterator[None]:
    """Let one `./run` of this name at a time use the data: a second one would damage it."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Rejected(f"another ./run {name} runs over {data}: end it first") from None
        yield


def interrupt(_signal: int, _frame: object) -> NoReturn:
    """Take a signal for Ctrl-C."""
    raise KeyboardInterrupt


def say(sentence: str) -> None:
    """Tell the person at the terminal."""
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
