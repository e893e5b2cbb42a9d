"""Fields that say whether something is known, asked or whole never do so by default."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pkgutil import walk_packages

import pytest

from noted_time import Rejected
from noted_time.client import Json, read_value
from noted_time.values import Late, Missing, VouchedBy

PACKAGES = "controller noted_time noted_time_cli reader_client spark_integration writer_client"
SAYS_KNOWN = re.compile(r"(^|_)(known|asked|whole|certain|checked|complete)$")


def list_defaults() -> Iterator[tuple[str, object]]:
    """Yield each such field of a value, and its default."""
    for package in map(import_module, PACKAGES.split()):
        for found in walk_packages(package.__path__, f"{package.__name__}."):
            module = import_module(found.name)
            for kind in vars(module).values():
                if not isinstance(kind, type) or kind.__module__ != found.name:
                    continue
                defaults = dict(getattr(kind, "_field_defaults", {}))
                defaults |= {f.name: f.default for f in fields(kind)} if is_dataclass(kind) else {}
                names = filter(SAYS_KNOWN.search, defaults)
                yield from ((f"{kind.__qualname__}.{name}", defaults[name]) for name in names)


def test_no_field_says_by_default_that_something_is_known() -> None:
    """Of all values."""
    found = dict(list_defaults())

    assert {"Missing.is_known", "VouchedBy.names_known"} <= found.keys()
    assert [name for name, default in found.items() if default is True] == []


VOUCHED = {"expected": 0, "expected_vouching": 0, "not_vouching": [], "not_vouching_count": 0}


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        (Late, {"late": [], "late_count": 0}),
        (Missing, {"missing": [], "missing_count": 0, "missing_joined_later": 0}),
        (VouchedBy, {"count": 0, "names": [], **VOUCHED}),
    ],
)
def test_an_answer_that_does_not_say_what_is_known_is_refused(kind: type, wire: Json) -> None:
    """Decoding fills nothing in."""
    with pytest.raises(Rejected, match=r"without '.*known'"):
        read_value(kind, wire)
