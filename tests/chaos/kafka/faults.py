"""The faults of a trial of Kafka, by name."""

import asyncio
import signal

from tests.chaos.kafka.arena import KafkaArena
from tests.chaos.kafka.writing import TRANSACTION_MS
from tests.chaos.turns import Faults

MOST_PARTITIONS = 12


async def kill_query(arena: KafkaArena) -> None:
    """Kill -9 the query's driver, with its Java."""
    await arena.kill_and_start(arena.query)


async def kill_producer(arena: KafkaArena) -> None:
    """Kill -9 any producer, amid a transaction or not."""
    await arena.kill_and_start(arena.producers[arena.chance.choice(sorted(arena.producers))])


async def kill_observer(arena: KafkaArena) -> None:
    """Kill -9 any observer, or the producers that do not note."""
    await arena.kill_and_start(arena.chance.choice([*arena.observers, arena.landing]))


async def kill_broker(arena: KafkaArena) -> None:
    """Kill -9 the broker."""
    await arena.restart_broker(arena.broker)


async def kill_far(arena: KafkaArena) -> None:
    """Kill -9 the broker of the other cluster."""
    await arena.restart_broker(arena.far)


async def kill_controller(arena: KafkaArena) -> None:
    """Kill -9 the controller."""
    await arena.restart_controller()


async def add_a_partition(arena: KafkaArena) -> None:
    """Add a partition, unless the topic has many."""
    if arena.partitions < MOST_PARTITIONS:
        await arena.add_a_partition()


async def start_a_twin(arena: KafkaArena) -> None:
    """Start a second process of a transactional producer's name; the older one has to end."""
    await arena.start_twin(arena.chance.choice(_transactional(arena)))


async def pause_producer(arena: KafkaArena) -> None:
    """Stop a producer for longer than its transaction may last; it wakes up as if nothing was."""
    program = arena.producers[arena.chance.choice(_transactional(arena))]
    async with program.busy:
        program.signal(signal.SIGSTOP)
        await asyncio.sleep(TRANSACTION_MS / 1000 + arena.chance.uniform(1.0, 3.0))
        program.signal(signal.SIGCONT)


def _transactional(arena: KafkaArena) -> list[str]:
    return [name for name, kind in arena.writers.items() if kind == "transactions"]


KAFKA_FAULTS: Faults[KafkaArena] = {
    "kill-query": kill_query,
    "kill-producer": kill_producer,
    "kill-observer": kill_observer,
    "kill-broker": kill_broker,
    "kill-far": kill_far,
    "kill-controller": kill_controller,
    "partition": add_a_partition,
    "twin": start_a_twin,
    "pause": pause_producer,
}
