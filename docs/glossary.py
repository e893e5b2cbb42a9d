"""Write the glossary's sentences for the dashboard: `./run python docs/glossary.py`.

The page of the glossary declares them. The dashboard shows those of streams, time and writers.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "glossary.md"
MODULE = ROOT / "controller" / "api" / "pages" / "dashboard" / "glossary.js"
INSIDE_HEADING = "## Inside the controller"

ROW = re.compile(r"^\| (?!word \|)(.+?) \| (.+) \|$", re.MULTILINE)
MARKUP = re.compile(r"[`*]|\[([^]]*)\]\([^)]*\)")
COLUMNS = 116

BEGIN = """\
// The sentences of docs/reference/glossary.md, written by docs/glossary.py. Change them there.

export const GLOSSARY = {
"""


def read_sentences(page: str) -> dict[str, str]:
    r"""Return the sentence of each word, as plain text.

    >>> read_sentences("| word | meaning |\n|---|---|\n| lower, watermark | the `lower` |")
    {'lower': 'the lower', 'watermark': 'the lower'}
    """
    shown_part = page.partition(INSIDE_HEADING)[0]
    sentences: dict[str, str] = {}
    for words, meaning in ROW.findall(shown_part):
        sentence = MARKUP.sub(r"\1", meaning)
        for word in words.split(", "):
            sentences[word] = sentence
    return sentences


def write_module(sentences: dict[str, str]) -> str:
    """Return the JavaScript, whose texts contain breaks where a line would be too long.

    >>> print(write_module({"log": "the data"}), end="")  # doctest: +ELLIPSIS
    // The sentences ...
    <BLANKLINE>
    export const GLOSSARY = {
      "log": `the data`,
    };
    """
    lines: list[str] = []
    for word, sentence in sentences.items():
        text = f'"{word}": `{sentence}`,'
        lines += wrap(
            text, COLUMNS, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        )
    return BEGIN + "\n".join(lines) + "\n};\n"


def main() -> None:
    """Write the module."""
    MODULE.write_text(write_module(read_sentences(PAGE.read_text("utf-8"))), "utf-8")


if __name__ == "__main__":
    main()
