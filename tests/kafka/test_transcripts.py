"""Sessions on a terminal with a Kafka broker; see `transcripts/*.txt`.

`tests/cli/test_transcripts.py` explains the form. `$BROKER` is the address of the broker, and
`@10:05` a time in Unix ms. There are more acts:

    topic flights 1 {"retention.ms": -1}      a new topic has one partition, and settings
    send flights 0 10:05 {"at": @10:05}       a record in partition 0 has a timestamp and a value
    send flights 0/UA 10:05                   another has a key, and no value
    abort flights 0 10:05 {"at": @10:05}      a transaction with a record is aborted
    truncate flights {"0": 5}                 records before an offset are deleted
    commit billing flights {"0": 5}           a consumer group commits offsets
    share billing flights 40                  a share group reads and acknowledges records
    hide topic flights                        nobody may describe a topic, or a `group`
    shop flights 10:00 {"0": 5}               the writer `shop` notes, with the topic's id
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from noted_time.kafka import Topic
from noted_time.kafka.connecting import FATAL_ONLY
from tests.cli.conftest import Commands
from tests.cli.test_transcripts import VERBS, Session, clear_streams, split_session
from tests.support.api_acts import read_time
from tests.support.paragraphs import read_files
from tests.support.polling import count_polls
from tests.support.transactions import begin_transaction
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import PATIENCE_S, wait_until

FILES = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))
KAFKA_VERBS = {"topic": 3, "send": 4, "abort": 4, "truncate": 2}
KAFKA_VERBS |= {"commit": 3, "share": 3, "hide": 2, "shop": 3}
"""The acts with a broker, and their number of words."""


@dataclass(kw_only=True)
class KafkaSession(Session):
    """A session whose acts use a broker, too."""

    broker: Broker

    def perform(self, act: str) -> None:
        """Perform an act of a paragraph, and compare its output."""
        filled_act = re.sub(r"@(\d\d:[\d:.]+)", lambda match: str(read_time(match[1])), act)
        verb, *words = filled_act.replace("$BROKER", self.broker.address).split(" ", 1)
        if verb in KAFKA_VERBS:
            getattr(self, f"_{verb}")(*words[0].split(" ", KAFKA_VERBS[verb] - 1))
        else:
            super().perform(" ".join((verb, *words)))

    def _topic(self, name: str, partitions: str, settings: str = "{}") -> None:
        self.broker.create(name, int(partitions), json.loads(settings))

    def _send(self, name: str, place: str, time: str, value: str | None = None) -> None:
        partition, _, key = place.partition("/")
        self.broker.send(name, [(int(partition), value, read_time(time))], key or None)

    def _abort(self, name: str, place: str, time: str, value: str) -> None:
        partition, _, key = place.partition("/")
        record: dict[str, Any] = {
            "partition": int(partition),
            "timestamp": read_time(time),
            "key": key or None,
        }
        begin_transaction(self.broker, name, value, **record).abort_transaction(60)
        topic = Topic(self.broker.config, name)
        wait_until(lambda: topic.look(committed=True) == topic.look())

    def _truncate(self, name: str, begins: str) -> None:
        self.broker.truncate(name, _read_offsets(begins))

    def _commit(self, group: str, name: str, offsets: str) -> None:
        self.broker.commit(group, name, _read_offsets(offsets))

    def _share(self, group: str, name: str, records: str) -> None:
        broker = self.broker
        set_operation = AlterConfigOpType.SET
        entry = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=set_operation
        )
        settings = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
        broker.change(lambda admin: admin.incremental_alter_configs([settings]))
        read_count = 0
        config = {**broker.config, "group.id": group, "log_level": FATAL_ONLY}
        with ShareConsumer(config) as consumer:
            consumer.subscribe([name])
            while read_count < int(records):
                read_count += sum(message.error() is None for message in consumer.poll(PATIENCE_S))
                consumer.commit_sync()

    def _hide(self, kind: str, name: str) -> None:
        self.broker.hide(name, ResourceType[kind.upper()])

    def _shop(self, name: str, time: str, position: str) -> None:
        log = Topic(self.broker.config, name).look().id
        note = {"writer": "shop", "time": read_time(time), "position": json.loads(position)}
        self.served.post(name, note | {"log": log})


def _read_offsets(json_text: str) -> dict[int, int]:
    return {int(partition): offset for partition, offset in json.loads(json_text).items()}


def play_session(
    acts: list[str],
    broker: Broker,
    served: Served,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Perform the acts of a paragraph in a directory, and compare their output."""
    monkeypatch.chdir(directory)
    count_polls(monkeypatch)
    clear_streams(served)
    session = KafkaSession(served, Commands(served.url), broker=broker)
    for act in split_session(acts, "|".join((VERBS, *KAFKA_VERBS))):
        session.perform(act)


@pytest.mark.acceptance
@pytest.mark.parametrize("acts", read_files(FILES))
def test_transcripts(
    broker: Broker, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: list[str]
) -> None:
    """Each session prints the output that its file shows."""
    play_session(acts, broker, served, tmp_path, monkeypatch)
