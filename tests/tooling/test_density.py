from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def density(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - in no package
    monkeypatch.syspath_prepend(root / ".ci")
    return import_module("density").Density()


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("writers = [writer for writer in members if writer.live]", ["comprehensions"]),
        ("a = b if c else d if e else f", ["conditional", "conditional", "conditionals in"]),
        ("first, last = 1, 2", ["packed"]),
        ("first, last = last, first", []),
        ("ending = 's' * (count > 1)", ["numbers"]),
        ("ending = ('', 's')[count > 1]", ["numbers"]),
        ("names = [m for w in writers for m in w]", ["comprehensions", "crowded"]),
        ("lowers = map(int, texts)", ["lambda"]),
    ],
)
def test_dense_line_is_counted(density: Any, line: str, kinds: list[str]) -> None:  # noqa: ANN401
    density.add(Path("a.py"), line)

    counted = []
    for kind, places in sorted(density.places.items()):
        counted += [kind] * len(places)
    assert [kind[: len(start)] for kind, start in zip(counted, kinds, strict=True)] == kinds


def test_names_that_say_no_kind_are_counted(density: Any) -> None:  # noqa: ANN401
    density.add(Path("a.py"), "def find(found, writers):\n    for each in writers: marked = each")

    (places,) = density.places.values()
    assert [place.split()[-1] for place in sorted(places)] == ["found", "each", "marked"]
