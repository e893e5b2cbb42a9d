"""Prove that a commit only renames locals: ./run python -m tools.compare_names COMMIT.

The syntax trees of changed files must be equal once locals and parameters have numbers for names.
A keyword of a call may change as a parameter of that function does. Only tests can check names
that a framework reads: pytest's fixtures and the parameters of a request.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

NAME_NODES = (ast.Name, ast.arg, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping)

NAME_FIELDS = ("id", "arg", "name", "rest")


class Word(NamedTuple):
    """A parameter of a function, or a keyword of a call."""

    function: str
    name: str


def list_parameters(tree: ast.AST) -> list[Word]:
    parameters = []
    for node in ast.walk(tree):
        children = node.body if isinstance(node, ast.ClassDef) else [node]
        for child in children:
            if isinstance(child, FUNCTIONS):
                function = getattr(child, "name", "")
                if function == "__init__" and isinstance(node, ast.ClassDef):
                    function = node.name
                names = [name.arg for name in ast.walk(child.args) if isinstance(name, ast.arg)]
                parameters += [Word(function, name) for name in names]
    return parameters


def take_keywords(tree: ast.AST) -> list[Word]:
    """Take the names of keywords out of all calls; returns them in their order."""
    keywords = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = ast.unparse(node.func).rsplit(".", 1)[-1]
            for keyword in node.keywords:
                if keyword.arg is not None:
                    keywords.append(Word(function, keyword.arg))
                    keyword.arg = ""
    return keywords


def list_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that an import, a handler or a pattern binds."""
    for field in NAME_FIELDS:
        name = getattr(node, field, None)
        if name:
            yield name


def list_locals(scope: Any) -> Iterator[str]:  # noqa: ANN401 - any class of nodes
    """Yield the names that a function or a comprehension binds, except in inner scopes."""
    if isinstance(scope, COMPREHENSIONS):
        for generator in scope.generators:
            for node in ast.walk(generator.target):
                if isinstance(node, ast.Name):
                    yield node.id
        return
    yield from (node.arg for node in ast.walk(scope.args) if isinstance(node, ast.arg))
    nodes = list(scope.body) if isinstance(scope.body, list) else [scope.body]
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, COMPREHENSIONS):
            nodes += [inner for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            if isinstance(node, NAME_NODES) and not isinstance(node, ast.Name):
                yield from list_names(node)
            nodes += ast.iter_child_nodes(node)


def find_number(name: str, scopes: Sequence[Mapping[str, str]]) -> str:
    """Return the number of a local in the innermost scope that has it."""
    if not name.isidentifier():  # numbered before, as a part that the outer scope reads
        return name
    for scope in reversed(scopes):
        if name in scope:
            return scope[name]
    return f"global {name}"


def number_locals(node: Any, scopes: tuple[Mapping[str, str], ...] = ()) -> None:  # noqa: ANN401
    """Replace each local by its number in its scope, and mark all other names as global."""
    if isinstance(node, FUNCTIONS):
        arguments = node.args
        decorators = getattr(node, "decorator_list", [])
        keyword_defaults = [default for default in arguments.kw_defaults if default is not None]
        for outer in chain(decorators, arguments.defaults, keyword_defaults):
            number_locals(outer, scopes)
    elif isinstance(node, COMPREHENSIONS):
        number_locals(node.generators[0].iter, scopes)
    if isinstance(node, (*FUNCTIONS, *COMPREHENSIONS)):
        names = dict.fromkeys(list_locals(node))
        scopes = (*scopes, {name: f"{len(scopes)}.{place}" for place, name in enumerate(names)})
        replace_in_docstring(node, scopes[-1])
    for field in NAME_FIELDS:
        if isinstance(node, NAME_NODES) and isinstance(getattr(node, field, None), str):
            setattr(node, field, find_number(getattr(node, field), scopes))
    if isinstance(node, ast.Nonlocal):
        node.names = [find_number(name, scopes) for name in node.names]
    for child in ast.iter_child_nodes(node):
        number_locals(child, scopes)


def replace_in_docstring(node: ast.AST, numbers: Mapping[str, str]) -> None:
    """Replace the locals that a docstring names in backticks by their numbers, and its wrapping."""

    def replace_name(name: re.Match[str]) -> str:
        return numbers.get(name[1], name[0])

    match node:
        case (
            ast.FunctionDef(body=[ast.Expr(ast.Constant(str(text)) as constant), *_])
            | ast.AsyncFunctionDef(body=[ast.Expr(ast.Constant(str(text)) as constant), *_])
        ):
            words = " ".join(text.split())
            constant.value = re.sub(r"`(\w+)`", replace_name, words)


def find_changes(texts: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Yield the changes beyond names, from the texts of each file before and after.

    A file that changes otherwise ends the search.
    """
    renamed_parameters: set[tuple[Word, Word]] = set()
    renamed_keywords: set[tuple[Word, Word]] = set()
    for path, (old_text, new_text) in texts.items():
        old_tree = ast.parse(old_text)
        new_tree = ast.parse(new_text)
        parameters = zip(list_parameters(old_tree), list_parameters(new_tree), strict=False)
        keywords = zip(take_keywords(old_tree), take_keywords(new_tree), strict=False)
        renamed_parameters.update(parameters)
        renamed_keywords.update(keywords)
        number_locals(old_tree)
        number_locals(new_tree)
        if ast.dump(old_tree) != ast.dump(new_tree):
            yield f"{path}: changes more than names"
            return
    for old_word, new_word in sorted(renamed_keywords - renamed_parameters):
        if old_word != new_word:
            yield f"{old_word.function}: no parameter {old_word.name} is now {new_word.name}"


def read_texts(commit: str) -> dict[str, tuple[str, str]]:
    """Return the texts of each file that a commit changes, before and after."""

    def call_git(*words: str) -> str:
        command = ["git", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    paths = call_git("diff", "--name-only", f"{commit}^", commit).splitlines()
    texts = {}
    for path in paths:
        old_text = call_git("show", f"{commit}^:{path}")
        new_text = call_git("show", f"{commit}:{path}")
        texts[path] = (old_text, new_text)
    return texts


def main(arguments: list[str]) -> int:
    """Print the changes of a commit beyond names, and return 1 if it has any."""
    if len(arguments) != 1:
        sys.stderr.write(f"{__doc__}")
        return 2
    changes = list(find_changes(read_texts(arguments[0])))
    sys.stdout.writelines(f"{line}\n" for line in changes or ["Only names change."])
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
