from noted_time_extensions.tables.tests.record_claims import CLAIMS
from tests.trials.record import TESTED, find_change, record


def test_random_histories_get_the_recorded_answers() -> None:
    """A change that should change answers renews the hashes with `--write`."""
    assert find_change(record(TESTED, CLAIMS), "claims", CLAIMS) is None
