"""No field claims by default that something is known, asked or whole."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pkgutil import walk_packages

from msgspec import Struct, structs

from noted_time.coding import build_decoder
from noted_time.reading import Gaps
from noted_time.values import Late, Missing, VouchedBy

PACKAGES = "controller noted_time noted_time_cli reader_client spark_integration writer_client"
SAYS_KNOWN = re.compile(r"(^|_)(known|asked|whole|certain|checked|complete)$")


def list_defaults(*packages: str) -> Iterator[tuple[str, object]]:
    """Yield each such field of a value in packages, and its default."""
    for package in packages:
        for kind in list_classes(package):
            for name, default in read_defaults(kind).items():
                if SAYS_KNOWN.search(name):
                    yield f"{kind.__qualname__}.{name}", default


def list_classes(package_name: str) -> Iterator[type]:
    """Yield the classes that the modules of a package define."""
    package = import_module(package_name)
    for module_info in walk_packages(package.__path__, f"{package_name}."):
        module = import_module(module_info.name)
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module_info.name:
                yield kind


def read_defaults(kind: type) -> dict[str, object]:
    """Return the defaults of the fields of a named tuple, a dataclass or a struct."""
    defaults: dict[str, object] = dict(getattr(kind, "_field_defaults", {}))
    if is_dataclass(kind):
        defaults |= {f.name: f.default for f in fields(kind)}
    if issubclass(kind, Struct):
        defaults |= {f.name: f.default for f in structs.fields(kind)}
    return defaults


def test_default_values_mean_not_known() -> None:
    defaults = dict(list_defaults(*PACKAGES.split()))

    assert {"Missing.is_known", "VouchedBy.names_known"} <= defaults.keys()
    assert [name for name, default in defaults.items() if default is True] == []


def test_answer_without_the_field_is_not_known() -> None:
    wire = b'{"missing_writers": [], "missing_count": 0, "late_writers": [], "late_count": 0}'

    gaps = build_decoder(Gaps).decode(wire)

    assert (gaps.missing, gaps.late) == (Missing(is_known=False), Late(is_known=False))
    assert not build_decoder(VouchedBy).decode(b'{"count": 0}').names_known
