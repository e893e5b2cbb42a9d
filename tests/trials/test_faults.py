"""The list of faults and the programs that play them agree."""

import pytest

from tests.trials.chaos.faults import REPLICA_FAULTS
from tests.trials.chaos.kafka.faults import KAFKA_FAULTS
from tests.trials.faults import FAULTS, KAFKA, REPLICAS, SIMULATION
from tests.trials.simulation.faults import SIMULATED_FAULTS

PLAYED = {REPLICAS: REPLICA_FAULTS, KAFKA: KAFKA_FAULTS, SIMULATION: SIMULATED_FAULTS}


@pytest.mark.parametrize("program", PLAYED)
def test_program_plays_its_faults_of_the_list(program: str) -> None:
    """All that the list says of it, and no fault that is missing there."""
    names = [fault.name for fault in FAULTS if program in fault.programs]

    assert sorted(names) == sorted(PLAYED[program])


def test_each_fault_of_the_list_has_a_known_program() -> None:
    assert all(fault.programs and PLAYED.keys() >= {*fault.programs} for fault in FAULTS)
