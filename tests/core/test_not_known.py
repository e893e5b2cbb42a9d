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
    for package in map(import_module, packages):
        for module_info in walk_packages(package.__path__, f"{package.__name__}."):
            module = import_module(module_info.name)
            for kind in vars(module).values():
                if not isinstance(kind, type) or kind.__module__ != module_info.name:
                    continue
                defaults = dict(getattr(kind, "_field_defaults", {}))
                defaults |= {f.name: f.default for f in fields(kind)} if is_dataclass(kind) else {}
                if issubclass(kind, Struct):
                    defaults |= {f.name: f.default for f in structs.fields(kind)}
                names = filter(SAYS_KNOWN.search, defaults)
                yield from ((f"{kind.__qualname__}.{name}", defaults[name]) for name in names)


def test_default_values_mean_not_known() -> None:
    defaults = dict(list_defaults(*PACKAGES.split()))

    assert {"Missing.is_known", "VouchedBy.names_known"} <= defaults.keys()
    assert [name for name, default in defaults.items() if default is True] == []


def test_answer_without_the_field_is_not_known() -> None:
    wire = b'{"missing_writers": [], "missing_count": 0, "late_writers": [], "late_count": 0}'

    gaps = build_decoder(Gaps).decode(wire)

    assert (gaps.missing, gaps.late) == (Missing(is_known=False), Late(is_known=False))
    assert not build_decoder(VouchedBy).decode(b'{"count": 0}').names_known
