"""The faults of a trial of Kafka, by name."""

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
    """Stop a producer for longer than its transaction may last; it wakes up as if nothing was."""
    program = arena.producers[arena.chance.choice(TRANSACTIONAL)]
    async with program.busy:
        program.signal(signal.SIGSTOP)
        await asyncio.sleep(TRANSACTION_MS / 1000 + arena.chance.uniform(1.0, 3.0))
        program.signal(signal.SIGCONT)


KAFKA_FAULTS: Faults[KafkaArena] = {
    # with its Java
    "kill-query": lambda arena: arena.kill_any(arena.query),
    # amid a transaction or not
    "kill-producer": lambda arena: arena.kill_any(*arena.producers.values()),
    # or the producers that do not note
    "kill-observer": lambda arena: arena.kill_any(*arena.observers, arena.producers[LANDING]),
    "kill-broker": lambda arena: arena.restart_broker(arena.broker),
    "kill-far": lambda arena: arena.restart_broker(arena.far),
    "kill-controller": lambda arena: arena.kill_any(arena.controller),
    "partition": add_a_partition,
    # a second process of the name of a producer with transactions: the older one has to end
    "twin": lambda arena: arena.start_twin(arena.chance.choice(TRANSACTIONAL)),
    "pause": pause_producer,
}
