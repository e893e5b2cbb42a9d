"""Hold the density of Python code to bounds: decisions a line, packed assignments, and names.

`python .ci/density.py` prints the figures of the product and of its tests and tools, and with
`--which` each place. The bounds are what the code meets. Lower them as the figures fall.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from words import FOLDERS, list_files

BOUNDS = {  # of the product, and of its tests and tools
    "conditional expressions per 1,000 lines": (14, 12),
    "comprehensions per 1,000 lines": (21, 37),
    "packed assignments per 1,000 lines": (0.5, 0.5),
    "lambda, map and filter per 1,000 lines": (4, 8),
    "conditionals in conditionals": (0, 0),
    "numbers and texts chosen by a truth value": (0, 0),
    "crowded comprehensions": (5, 45),
    "names that say no kind, in percent": (1, 2.5),
    "names of one letter, in percent": (1, 2),
}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
EMPTY_NAMES = frozenset(
    "above again below by each far found given gone held here how kept known least lost made most"  # noqa: SIM905
    " new of old one ones other others own read said seen sent some taken there told what where"
    " which who whole whose written".split()
)
LETTER_NAMES = frozenset(["entry", "item", "obj", "thing"])
NOUNS = frozenset(["expected", "hundred", "speed"])


def says_no_kind(name: str) -> bool:
    """Whether a name is a lone participle or a word that fits any value."""
    word = name.strip("_")
    is_participle = word.endswith("ed") and len(word) > len("need") and "_" not in word
    return word in EMPTY_NAMES or (is_participle and word not in NOUNS)


def list_local_names(function: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield parameters, locals and their lines, without those of inner functions."""
    nodes = list(ast.iter_child_nodes(function))
    while nodes:
        node = nodes.pop()
        is_bound = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        if is_bound or isinstance(node, ast.arg):
            yield node.arg if isinstance(node, ast.arg) else node.id, node.lineno
        if not isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            nodes += ast.iter_child_nodes(node)


def is_truth_value(node: ast.AST) -> bool:
    is_negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_negation or isinstance(node, ast.Compare | ast.BoolOp)


def is_packed(node: ast.Assign) -> bool:
    target = node.targets[0]
    if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
        return False
    target_texts = sorted(ast.unparse(element) for element in target.elts)
    return target_texts != sorted(ast.unparse(element) for element in node.value.elts)


def contains(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    return any(isinstance(inner, kinds) for inner in ast.walk(node) if inner is not node)


def is_crowded(node: ast.AST) -> bool:
    """Whether a comprehension has two loops, two conditions, or another or a conditional inside."""
    generators = getattr(node, "generators", [])
    has_conditions = any(len(generator.ifs) > 1 for generator in generators)
    return len(generators) > 1 or has_conditions or contains(node, (*COMPREHENSIONS, ast.IfExp))


def list_kinds(node: ast.AST) -> Iterator[str]:
    """Yield the bounds that one node of a syntax tree counts for."""
    (conditional, comprehension, packed, function, nested, coded, crowded, *_) = BOUNDS
    match node:
        case ast.IfExp():
            yield conditional
            if contains(node, (ast.IfExp,)):
                yield nested
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            yield comprehension
            if is_crowded(node):
                yield crowded
        case ast.Assign() if is_packed(node):
            yield packed
        case ast.Lambda() | ast.Call(func=ast.Name("map" | "filter" | "starmap")):
            yield function
        case ast.BinOp(op=ast.Mult()) if is_truth_value(node.left) or is_truth_value(node.right):
            yield coded
        case ast.Subscript(value=ast.Tuple() | ast.List()) if is_truth_value(node.slice):
            yield coded


@dataclass
class Density:
    """Where a kind of code is dense, and the size of that code."""

    lines: int = 0
    names: int = 0
    places: defaultdict[str, list[str]] = field(default_factory=partial(defaultdict, list))

    def add(self, path: Path, text: str) -> None:
        """Count the text of one file."""
        *_, no_kind, letter = BOUNDS
        tree = ast.parse(text)
        self.lines += len({node.lineno for node in ast.walk(tree) if hasattr(node, "lineno")})
        for node in ast.walk(tree):
            for kind in list_kinds(node):
                self.places[kind].append(f"{path}:{node.lineno}")
            names: dict[str, int] = {}
            if isinstance(node, (*FUNCTIONS, ast.Lambda)):
                names = dict(list_local_names(node))
            self.names += len(names)
            for name, line in names.items():
                if says_no_kind(name):
                    self.places[no_kind].append(f"{path}:{line}: {name}")
                elif len(name.strip("_")) == 1 or name in LETTER_NAMES:
                    self.places[letter].append(f"{path}:{line}: {name}")

    def compute_figure(self, kind: str) -> float:
        """Return the count of a bound: all, or by lines or names."""
        count = len(self.places[kind])
        by_lines = 1000 * count / max(1, self.lines)
        by_names = 100 * count / max(1, self.names)
        return {"lines": by_lines, "percent": by_names}.get(kind.rsplit(maxsplit=1)[-1], count)


def main(arguments: list[str]) -> int:
    """Print each figure with its bound; returns 1 if one is exceeded."""
    status = 0
    for place, kind in enumerate(FOLDERS):
        density = Density()
        for path in list_files(kind):
            density.add(path, path.read_text("utf-8"))
        for name, bounds in BOUNDS.items():
            bound = bounds[place]
            figure = density.compute_figure(name)
            is_over = figure > bound
            status |= is_over
            ending = " - too many, see python .ci/density.py --which" if is_over else ""
            print(f"{kind}: {name}: {figure:.4g} (at most {bound:g}){ending}")
            if "--which" in arguments:
                print(*(f"  {line}" for line in density.places[name]), sep="\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
