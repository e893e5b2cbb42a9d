"""The faults of all trials, each once: what fails, whom it hits, and the programs that play it.

A program has its own way to bring a fault about, and looks it up by name. `proxy.py` of the
conformance runner has the faults of single requests, which its scripts plan.
"""

from typing import NamedTuple

REPLICAS = "./run chaos"
KAFKA = "./run chaos --kafka"
SIMULATION = "tests.trials.simulation"


class Fault(NamedTuple):
    """What may fail in a trial."""

    name: str
    hits: str
    sentence: str
    programs: tuple[str, ...]


FAULTS = (
    Fault("kill", "a controller", "It ends, and starts again soon.", (REPLICAS, SIMULATION)),
    Fault("kill-owner", "a controller", "The same, and it had streams.", (REPLICAS,)),
    Fault("kill-controller", "a controller", "The same, and it is the only one.", (KAFKA,)),
    Fault("kill-all", "all controllers", "They end, and start at once.", (REPLICAS,)),
    Fault("stop", "a controller", "It shuts down, and starts again.", (REPLICAS, SIMULATION)),
    Fault(
        "pause",
        "a controller, or a producer of Kafka",
        "It stands still for longer than its leases or its transaction last, and does not know.",
        (REPLICAS, KAFKA, SIMULATION),
    ),
    Fault("suspend", "a controller", "All its clocks skip an hour.", (SIMULATION,)),
    Fault("clocks", "wall clocks", "They are wrong by hours or more.", (REPLICAS, SIMULATION)),
    Fault("empty-start", "new controllers", "The database has no tables yet.", (REPLICAS,)),
    Fault("power", "SQLite", "Only durable parts of its files are left.", (REPLICAS,)),
    Fault("database-crash", "PostgreSQL", "It ends, and starts again soon.", (REPLICAS,)),
    Fault("database-outage", "PostgreSQL", "Writers time out before it starts.", (REPLICAS,)),
    Fault("database-hang", "PostgreSQL", "It answers no one: commits time out.", (REPLICAS,)),
    Fault("failed-commit", "a commit", "It fails, written or not.", (SIMULATION,)),
    Fault("lost-commits", "the database", "A standby lacks the last ones.", (SIMULATION,)),
    Fault("cut", "a link to the database", "Its connections end.", (REPLICAS, SIMULATION)),
    Fault("half-open", "a link to the database", "Data is lost before the end.", (REPLICAS,)),
    Fault("stall", "a link to the database", "Data comes later.", (REPLICAS, SIMULATION)),
    Fault("isolated", "a controller", "Nothing comes through to it or from it.", (REPLICAS,)),
    Fault("unreached", "a controller", "Callers do not reach it.", (REPLICAS, SIMULATION)),
    Fault("lost-answers", "requests", "The caller gets no answer.", (REPLICAS, SIMULATION)),
    Fault("double", "requests", "One comes twice, perhaps much later.", (SIMULATION,)),
    Fault("kill-query", "the query", "It ends, with its Java, and starts again.", (KAFKA,)),
    Fault("kill-producer", "a producer", "It ends, amid a transaction or not.", (KAFKA,)),
    Fault("kill-observer", "an observer", "It ends, or producers that do not note.", (KAFKA,)),
    Fault("kill-broker", "the broker", "It ends, and starts again on its files.", (KAFKA,)),
    Fault("kill-far", "the broker of another cluster", "The same.", (KAFKA,)),
    Fault("partition", "the topics", "They get one more partition.", (KAFKA,)),
    Fault("twin", "a producer", "A process of its name starts, and has to fence it.", (KAFKA,)),
)
