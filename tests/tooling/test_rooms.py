"""The sentences of docstrings and errors are short."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tooling.wheels import PACKAGES

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
