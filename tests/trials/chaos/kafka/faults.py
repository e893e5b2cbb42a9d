"""How the processes of a trial of Kafka come to a fault of the list."""

import asyncio
import signal

from tests.trials.chaos.kafka.arena import LANDING, WRITERS, KafkaArena
from tests.trials.chaos.kafka.writing import TRANSACTION_MS
from tests.trials.chaos.trial import Faults

MOST_PARTITIONS = 12
TRANSACTIONAL = [name for name, kind in WRITERS.items() if kind == "transactions"]


async def kill_query(arena: KafkaArena) -> None:
    await arena.kill_any(arena.query)


async def kill_producer(arena: KafkaArena) -> None:
    await arena.kill_any(*arena.producers.values())


async def kill_observer(arena: KafkaArena) -> None:
    await arena.kill_any(*arena.observers, arena.producers[LANDING])


async def kill_broker(arena: KafkaArena) -> None:
    await arena.restart_broker(arena.broker)


async def kill_far_broker(arena: KafkaArena) -> None:
    await arena.restart_broker(arena.far)


async def kill_controller(arena: KafkaArena) -> None:
    await arena.kill_any(arena.controller)


async def start_twin(arena: KafkaArena) -> None:
    await arena.start_twin(arena.chance.choice(TRANSACTIONAL))


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
    "kill-query": kill_query,
    "kill-producer": kill_producer,
    "kill-observer": kill_observer,
    "kill-broker": kill_broker,
    "kill-far": kill_far_broker,
    "kill-controller": kill_controller,
    "partition": add_a_partition,
    "twin": start_twin,
    "pause": pause_producer,
}
