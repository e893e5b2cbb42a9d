import pytest

from tests.trials.record import KINDS, TESTED, find_change, record


@pytest.fixture(scope="module")
def hashes() -> list[str]:
    return record(TESTED)


@pytest.mark.parametrize("kind", KINDS)
def test_random_histories_get_the_recorded_answers(hashes: list[str], kind: str) -> None:
    """A change that should change answers of a kind renews the hashes with `--write`."""
    assert find_change(hashes, kind) is None
