"""How the processes of a trial of Kafka come to a fault of the list."""

import asyncio
import signal

from tests.trials.chaos.kafka.arena import LANDING, WRITERS, KafkaArena
from tests.trials.chaos.kafka.writing import TRANSACTION_MS
from tests.trials.chaos.trial import Faults

MOST_PARTITIONS = 12
TRANSACTIONAL = [name for name, kind in WRITERS.items() if kind == "transactions"]


async def add_a_partition(arena: KafkaArena) -> None:
    """Add a partition, unless the topic has many."""
    if arena.partitions < MOST_PARTITIONS:
        await arena.add_a_partition()


async def pause_producer(arena: KafkaArena) -> None:
    program = arena.producers[arena.chance.choice(TRANSACTIONAL)]
    async with program.busy:
        program.signal(signal.SIGSTOP)
        await asyncio.sleep(TRANSACTION_MS / 1000 + arena.chance.uniform(1.0, 3.0))
        program.signal(signal.SIGCONT)


KAFKA_FAULTS: Faults[KafkaArena] = {
    "kill-query": lambda arena: arena.kill_any(arena.query),
    "kill-producer": lambda arena: arena.kill_any(*arena.producers.values()),
    "kill-observer": lambda arena: arena.kill_any(*arena.observers, arena.producers[LANDING]),
    "kill-broker": lambda arena: arena.restart_broker(arena.broker),
    "kill-far": lambda arena: arena.restart_broker(arena.far),
    "kill-controller": lambda arena: arena.kill_any(arena.controller),
    "partition": add_a_partition,
    "twin": lambda arena: arena.start_twin(arena.chance.choice(TRANSACTIONAL)),
    "pause": pause_producer,
}
