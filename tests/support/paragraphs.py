"""Reads files of examples, paragraph by paragraph."""

import re
from pathlib import Path
from typing import Any

import pytest


def read_paragraphs(file: Path) -> list[Any]:
    """Return the acts of each paragraph as parameters of a test, with its fact for an id.

    The first paragraph says how to read the file. Each other one has a fact, more about it, and its
    acts, indented. An act continues on lines that are indented further or begin with a stroke.
    """
    found = file.read_text().strip().split("\n\n")[1:]
    acts = (re.split(r"\n    (?![ |])", each)[1:] for each in found)
    facts = (f"{file.stem}: {each.splitlines()[0]}" for each in found)
    return [pytest.param(each, id=fact) for each, fact in zip(acts, facts, strict=True)]
