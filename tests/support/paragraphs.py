"""Reads files of examples, paragraph by paragraph, and compares texts and JSON with them."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ANY = "..."
REST = "…"
GAP = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:\s*…)?|…(\s*\})?')
"""A string, an omitted value after its colon, and omitted fields or elements."""


def read_paragraphs(file: Path) -> list[Any]:
    """Return the acts of each paragraph as parameters of a test, with its fact for an id.

    The first paragraph says how to read the file. Each other one has a fact, more about it, and its
    acts, indented. An act continues on lines that are indented more or begin with `|`.
    """
    paragraphs = file.read_text().strip().split("\n\n")[1:]
    acts = (re.split(r"\n    (?![ |])", paragraph)[1:] for paragraph in paragraphs)
    facts = (f"{file.stem}: {paragraph.splitlines()[0]}" for paragraph in paragraphs)
    return [
        pytest.param(acts_of_paragraph, id=fact)
        for acts_of_paragraph, fact in zip(acts, facts, strict=True)
    ]


def read_files(files: Iterable[Path]) -> list[Any]:
    """Return the acts of each paragraph of all files, as `read_paragraphs`."""
    paragraphs = []
    for file in files:
        paragraphs += read_paragraphs(file)
    return paragraphs


def is_answer(expected: str, answer: str) -> bool:
    """Return whether a whole text is as expected, where `…` stands for any part.

    >>> is_answer("Rejected: …is away", "Rejected: the broker is away")
    True
    >>> is_answer("Rejected: the broker", "Rejected: the broker is away")
    False
    """
    return bool(re.fullmatch(re.escape(expected).replace("…", ".*"), answer, re.DOTALL))


def parse_expected(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Decode JSON where `…` is any value, other fields or other elements, for `matches`.

    >>> parse_expected('{"a": …, "b": [1, …], …}')
    {'a': '...', 'b': [1, '…'], '...': '...'}
    """
    return json.loads(GAP.sub(_quote, text))


def _quote(match: re.Match[str]) -> str:
    string, value, end = match.groups()
    if string is not None:
        return f'{string}: "{ANY}"' if value else string.replace(f'"{REST}"', f'"{ANY}"')
    return f'"{REST}"' if end is None else f'"{ANY}": "{ANY}"{end}'


def matches(expected: Any, answer: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a value is as expected by `parse_expected`; `"..."` stands for any value.

    >>> matches({"a": "...", "b": [1]}, {"a": 5, "b": [1]})
    True
    >>> matches(parse_expected('{"a": 5, …}'), {"a": 5, "b": [1]})
    True
    >>> matches([1, "…"], [1]), matches([1, "…"], [1, 2, 3]), matches([1, "…"], [2, 3])
    (True, True, False)
    """
    if isinstance(expected, dict) and isinstance(answer, dict):
        names = expected.keys() - {ANY}
        is_whole = ANY in expected or names == answer.keys()
        return is_whole and all(k in answer and matches(expected[k], answer[k]) for k in names)
    if isinstance(expected, list) and isinstance(answer, list):
        if expected[-1:] == [REST]:
            expected = expected[:-1]
            answer = answer[: len(expected)]
        if len(expected) != len(answer):
            return False
        return all(matches(*pair) for pair in zip(expected, answer, strict=True))
    return bool(expected in (ANY, answer) and (expected == ANY or type(expected) is type(answer)))
