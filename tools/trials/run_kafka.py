"""A Kafka broker for trials: `./run kafka`. Its jars and its data stay in the clone."""

from __future__ import annotations

import argparse
import fcntl
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from confluent_kafka import KafkaException

from noted_time import NotedTimeError, Rejected
from noted_time.values import pluralize
from tools.trials.broker import HOME, JARS, Broker
from tools.trials.descendants import end_with_this_process
from tools.trials.kafka_options import build_parser
from tools.trials.maven import fetch, list_jars, say
from tools.trials.ports import listens
from tools.trials.secured_kafka import SecuredBroker

FIRST = ("flights", 2)
"""The topic that is created where there is none."""

TRY = """To try it, produce in another terminal:

{python} -c '
from confluent_kafka import Producer
producer = Producer({{"bootstrap.servers": "{address}"}})
for number in range(10):
    producer.produce("{topic}", f"record {{number}}")
producer.flush()'

and consume, up to ten of them:

{python} -c '
from confluent_kafka import Consumer
group = {{"group.id": "trial", "auto.offset.reset": "earliest"}}
consumer = Consumer({{"bootstrap.servers": "{address}", **group}})
consumer.subscribe(["{topic}"])
for message in consumer.consume(10, 10):
    print(message.partition(), message.offset(), message.value().decode())
consumer.close()'
"""


def main(arguments: Sequence[str]) -> int:
    """Fetch the jars, run a broker until Ctrl-C, and return the exit status."""
    options = build_parser().parse_args(arguments)
    out = options.data / "out"
    return run_until_interrupted(
        "kafka", lambda: _run(options), f"the broker ended; {out} says why"
    )


def run_until_interrupted(name: str, run: Callable[[], None], ended_text: str) -> int:
    """Run a program of `./run` until Ctrl-C, and return its exit status.

    `ended_text` is the message for another end.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    end_with_this_process()
    try:
        run()
    except KeyboardInterrupt:
        say("")
    except (NotedTimeError, KafkaException) as error:
        say(f"run {name}: {error}")
        return 1
    except AssertionError as error:
        say(f"run {name}: {ended_text}\n{error}")
        return 1
    return 0


def _fetch_all(repository: str | None) -> None:
    """Fetch what tests need: Kafka Connect, other clients, and connectors of Spark."""
    from tools.trials import connect_server, debezium, kafka, tables  # noqa: PLC0415 - load Spark

    for module in (kafka, tables, connect_server, debezium):
        module.install(repository)


def _run(options: argparse.Namespace) -> None:
    if options.fetch:  # also `./run test`
        _fetch_all(options.repository)
        return
    fetch(list_jars(JARS), HOME / "broker", repository=options.repository)
    data = options.data
    port = options.port
    topics = options.topic
    new_broker = (SecuredBroker if options.secured else Broker)(data, port=port)
    if listens(port):
        if not (topics and _is_running(data)):
            raise Rejected(f"port {port} is taken, perhaps by another broker: choose one by --port")
        _create(new_broker, topics)
        say(f"It runs at {new_broker.address}. {_topics(new_broker)}.")
        return
    with alone(data, "kafka"), new_broker as broker:
        _create(broker, topics or ([] if broker.topics() else [FIRST]))
        say(f"Kafka listens at {broker.address} until Ctrl-C; it keeps its data in {data}.")
        if isinstance(broker, SecuredBroker):
            _say_how(broker)
        say(f"{_topics(broker)}; --topic NAME:PARTITIONS creates another.")
        topic = next(iter(broker.topics()))
        python = shlex.quote(sys.executable)
        say(TRY.format(python=python, address=broker.address, topic=topic))
        broker.wait()


def _create(broker: Broker, topics: Sequence[tuple[str, int]]) -> None:
    existing_topics = broker.topics()
    for name, partitions in topics:
        if name not in existing_topics:
            broker.create(name, partitions)
            if partitions == 1:
                say(f"{name} has 1 partition. For more, use for example --topic NAME:4.")


def _topics(broker: Broker) -> str:
    topic_texts = [
        f"{name} ({pluralize(count, 'partition')})" for name, count in broker.topics().items()
    ]
    return f"Topics: {', '.join(topic_texts)}"


def _say_how(broker: SecuredBroker) -> None:
    """Print the settings of its secured listeners, and write their certificates."""
    for name in ("ssl.ca.location", "ssl.certificate.location"):
        shutil.copy(broker.mutual[name], Path(broker.mutual[name]).name)
    for settings in (broker.scram, broker.mutual, broker.bearer):
        setting_lines = (
            f"  {k}={Path(v).name if 'location' in k else v}" for k, v in settings.items()
        )
        say("\n".join(["It also listens for clients with these settings:", *setting_lines]))
    say(f"Tokens are at {broker.token_url}, for the same user and password.")


@contextmanager
def alone(data: Path, name: str) -> Iterator[None]:
    """Let only one `./run` of this name use the data, which two would damage."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Rejected(f"another ./run {name} runs over {data}: end it first") from None
        yield


def _is_running(data: Path) -> bool:
    try:
        with alone(data, "kafka"):
            return False
    except Rejected:
        return True


def _interrupt(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
