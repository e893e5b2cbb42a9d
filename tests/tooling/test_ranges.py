"""Nothing is looked up in a `range`: that walks it, step by step, for whatever is no int."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tooling.wheels import PACKAGES

PLACES = (*PACKAGES, "integrations", "demo", "examples", "benchmarks")


def is_range(node: ast.AST | None, named: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is a call of `range`, or one of the names."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "range"
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
    return name in named


def constants(tree: ast.AST) -> Iterator[str]:
    """Yield the names and parameters that are ranges."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and is_range(node.value):
            yield from (each.id for each in node.targets if isinstance(each, ast.Name))
        if isinstance(node, ast.AnnAssign) and is_range(node.value):
            yield getattr(node.target, "id", "")
        annotation = getattr(node, "annotation", None)
        if isinstance(node, ast.arg) and getattr(annotation, "id", "") == "range":
            yield node.arg


def looked_up(tree: ast.AST, named: frozenset[str]) -> list[int]:
    r"""Return the lines in which something is looked up in a range.

    >>> looked_up(ast.parse("5 in range(9)\nfor a in range(9): pass\nb not in c"), frozenset("c"))
    [1, 3]
    """
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for sign, right in zip(node.ops, node.comparators, strict=True)
        if isinstance(sign, ast.In | ast.NotIn) and is_range(right, named)
    ]


@pytest.fixture(scope="module")
def trees(root: Path) -> dict[str, ast.AST]:
    """Return the modules of the product, and of what comes with it."""
    modules = (each for place in PLACES for each in (root / place).rglob("*.py"))
    return {each.relative_to(root).as_posix(): ast.parse(each.read_text()) for each in modules}


def test_nothing_is_looked_up_in_a_range(trees: dict[str, ast.AST]) -> None:
    """Compare by bounds: `noted_time.values.Bounds`, or `a <= x < b`."""
    shared = {name for tree in trees.values() for name in constants(tree) if name.isupper()}
    found = {
        path: looked_up(tree, frozenset((*constants(tree), *shared)))
        for path, tree in trees.items()
    }

    assert {path: lines for path, lines in found.items() if lines} == {}
