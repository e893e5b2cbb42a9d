"""The CPU time that the interceptor adds to a record of a Java producer."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target
from tools.trials import java
from tools.trials.java import JavaProducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.trials.kafka import Broker

COST = Target("value", "at most", 0.4)
WARM = 3
"""The rounds until Java has compiled the measured code."""


def measure_interceptor(
    broker: Broker, url: str, run: Run, create: Callable[[str], None], records: int
) -> list[Figure]:
    """Measure two producers in turn, one with the interceptor; nothing without a JDK."""
    if java.compiler() is None:
        run.say(f"left out: the interceptor {java.MISSING}")
        return []
    noting = {**java.interceptor(url, "j"), "noted.time.period.ms": 1000}
    ways: dict[str, dict[str, object]] = {"noted": noting, "bare": {}}
    rounds: list[tuple[float, ...]] = []
    with ExitStack() as closing:
        producers = []
        for way, settings in ways.items():
            create(f"java-{way}")
            producer = JavaProducer(
                run.directory / way, f"java-{way}", {**broker.config, **settings}
            )
            closing.callback(producer.kill)
            producers.append(producer)
        for number in range(WARM + run.repeats(full=15, quick=3)):
            run.say(f"Kafka: producing in Java, round {number + 1}")
            rounds.append(
                tuple(
                    measured_producer.flush(records) / records / 1000
                    for measured_producer in producers
                )
            )
    noted_samples, bare = (Samples(values) for values in zip(*rounds[WARM:], strict=True))
    extra = Samples(tuple(a - b for a, b in zip(noted_samples.values, bare.values, strict=True)))
    remark = f"without it, a record costs {bare.median:.2f} µs"
    return [Figure("Kafka: extra CPU a record in Java", "µs", extra, target=COST, remark=remark)]
