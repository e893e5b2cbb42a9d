import pytest

from tools.compare_names import find_changes

BEFORE = """
def list_names(found, *, least=0):
    '''Return the names in `found`.'''
    return [each.name for each in found if each.time >= least]

list_names([], least=1)
"""

AFTER = """
def list_names(writers, *, min_time=0):
    '''Return the names in `writers`.'''
    return [writer.name for writer in writers if writer.time >= min_time]

list_names([], min_time=1)
"""


def test_locals_parameters_and_keywords_may_change() -> None:
    changes = find_changes({"names.py": (BEFORE, AFTER)})

    assert list(changes) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("writer.time >=", "writer.time >"),
        ("writer.time", "writer.seq"),
        ("writer.time >= min_time", "writers.time >= min_time"),
        ("for writer in writers", "for writer in writer"),
        ("def list_names", "def list_writers"),
        ("the names in `writers`", "the names in `writer`"),
    ],
)
def test_other_change_is_named(old: str, new: str) -> None:
    changes = find_changes({"names.py": (BEFORE, AFTER.replace(old, new))})

    assert list(changes) == ["names.py: changes more than names"]


def test_keyword_without_its_parameter_is_named() -> None:
    after = AFTER.replace("[], min_time=1", "[], least=1")

    changes = find_changes({"names.py": (AFTER, after)})

    assert list(changes) == ["list_names: no parameter min_time is now least"]


def test_local_that_takes_a_global_name_is_named() -> None:
    before = "def find(each):\n    return judge(each)\n"

    changes = find_changes({"names.py": (before, before.replace("each", "judge"))})

    assert list(changes) == ["names.py: changes more than names"]
