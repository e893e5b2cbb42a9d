"""No record of the product is there twice, and its sentences are short."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.tooling.wheels import PACKAGES

FEW = 3
"""Records with fewer fields may be alike by chance."""


def test_no_two_classes_have_the_same_fields(root: Path) -> None:
    """A fact that is there twice is in two truths one day."""
    declared = defaultdict(list)
    for path in sorted(path for top in PACKAGES for path in (root / top).rglob("*.py")):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.ClassDef):
                targets = (part.target for part in each.body if isinstance(part, ast.AnnAssign))
                fields = frozenset(name.id for name in targets if isinstance(name, ast.Name))
                declared[fields].append(f"{path.relative_to(root)}::{each.name}")

    assert [
        classes for fields, classes in declared.items() if len(fields) >= FEW and len(classes) > 1
    ] == []


MOST_WORDS = 30


def test_a_sentence_of_a_docstring_or_an_error_is_short(root: Path) -> None:
    """Tables, trees and examples are no sentences."""
    found = {
        f"{path.relative_to(root)}: {' '.join(sentence.split())}"
        for path in sorted(path for top in PACKAGES for path in (root / top).rglob("*.py"))
        for text in said_in(ast.parse(path.read_text()))
        for paragraph in re.split(r"\n\s*\n", text)
        if not re.search(r">>>|\||│|===", paragraph)
        for sentence in re.split(r"(?<=[.?!:;])\s+", paragraph)
        if len(sentence.split()) > MOST_WORDS
    }

    assert found == set()


def said_in(module: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module and the texts of what it raises, `x` for each value."""
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        elif isinstance(node, ast.Raise):
            for each in ast.walk(node):
                if isinstance(each, ast.JoinedStr):
                    parts = (
                        part.value if isinstance(part, ast.Constant) else "x"
                        for part in each.values
                    )
                    yield "".join(map(str, parts))
                elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.value
