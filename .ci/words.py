"""Count the turns of phrase and the names that a reader has to translate, and hold them to bounds.

No pattern is an error by itself, because each is the plain word somewhere. Their rate tells whether
text reads as a person in the field would write it. `python .ci/words.py` prints the figures, and
with `--which` each place.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BOUNDS = {  # ratchets: lower them as the figures fall
    "odd turns in code, per 1,000 words": 0.9,
    "odd turns in pages, per 1,000 words": 0.4,
    "sentences over 28 words in code": 15,
    "sentences over 28 words in pages": 5,
    "functions named by a participle or a preposition, in percent": 1.2,
    "module constants of one word": 20,
    "odd turns in tests, per 1,000 words": 1.5,
    "functions of tests named by a participle or a preposition, in percent": 1,
    "functions with names over 60 characters": 0,
}

PLUG_NAMES = {"CHECKS", "COMMANDS", "DATASETS"}
"""The names that each plug of an extension declares."""

FOLDERS = {
    "code": (
        "controller",
        "integrations",
        "noted_time",
        "noted_time_cli",
        "noted_time_extensions",
        "reader_client",
        "spark_integration",
        "writer_client",
    ),
    "tests": ("benchmarks", "demo", "run", "tests", "tools"),
}

ODD_TURNS = re.compile(
    r"""\bwhat\ (?:is|was|are|were|it|they|the|a|an|we|each|no|has|had|came|comes|one)\b
    | \b(?:that\ of|those\ (?:that|of|which|who|whose)|the\ one\ (?:that|of|with))\b
    | \b(?:of|by|for|in|with|from|to|at|below|above)\ which\b
    | \b(?:is|are|was|were)\ no\ [a-z]
    | \bof\ (?:its|their|your|his|our)\ own\b | \bof\ (?:ours|yours)\b
    | \b(?:beside|further|thereby|hence|therein|whereby|gone)\b
    | \b(?:whoever|whatever|somebody|nobody|anybody)\b
    | \b(?:becomes?\ of|came\ to\ be|comes\ to\ be)\b
    | \b(?:is|are)\ (?:told|said|asked|named|meant|had)\b""",
    re.VERBOSE | re.IGNORECASE,
)

LONG_SENTENCE = 28

LONG_NAME = 60

SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+")

CODE_SPAN = re.compile(r"`[^`]*`|(?<=\])\([^)]*\)")

QUOTES = re.compile(r"\A\w*[\"']+|[\"']+\Z")

EXAMPLE = re.compile(r"^\s*(?:>>>|\.\.\.).*$", re.MULTILINE)

PARTICIPLE = re.compile(
    r"[a-z]+ed|known|made|said|shown|given|begun|taken|held|left|found|kept|told|sent|seen|written"
    r"|chosen|fed|brought|done|gone"
)

PREPOSITIONS = frozenset(
    "of by at in to with from for after as on below above beside".split()  # noqa: SIM905
)

CONVERSION = re.compile(r"(?:to|from|as|on)_\w+|of|by|at|in|to|with|from")


@dataclass
class Count:
    """The words of a kind of text, and where they are odd or a sentence is long."""

    words: int = 0
    odd: list[str] = field(default_factory=list)
    long: list[str] = field(default_factory=list)

    def add(self, place: str, passage: str) -> None:
        """Count one passage, which is a paragraph, a docstring, a comment or a message."""
        text = CODE_SPAN.sub("x", passage)
        self.words += len(text.split())
        self.odd += [f"{place}: {match.group()}" for match in ODD_TURNS.finditer(text)]
        for sentence in SENTENCE_END.split(text):
            if len(sentence.split()) > LONG_SENTENCE:
                self.long.append(f"{place}: {' '.join(sentence.split())[:90]}")


def list_files(kind: str) -> list[Path]:
    """Return the tracked files of the product ("code"), its tests and tools, or its pages."""
    patterns = ["*.md"] if kind == "pages" else ["*.py", "run"]
    process = subprocess.run(
        ["git", "ls-files", *patterns], capture_output=True, text=True, check=True
    )
    files = [Path(line) for line in process.stdout.splitlines()]
    if kind in FOLDERS:
        return [file for file in files if find_kind(file) == kind]
    return [
        file
        for file in files
        if str(file) == "README.md" or (file.parts[0] == "docs" and "decisions" not in file.parts)
    ]


def find_kind(file: Path) -> str | None:
    """Return the kind of a Python file. The tests of an extension are in its folder."""
    if file.parts[0] == "noted_time_extensions" and "tests" in file.parts:
        return "tests"
    for kind, folders in FOLDERS.items():
        if file.parts[0] in folders:
            return kind
    return None


def read_code(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines and texts of docstrings, comments and messages; examples are left out."""
    comment: list[str] = []
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT and "noqa" not in token.string:
                comment.append(token.string.lstrip("# "))
            elif token.type != tokenize.NL and comment:
                yield token.start[0], " ".join(comment)
                comment = []
            if token.type == tokenize.STRING and " " in token.string.strip():
                text = EXAMPLE.sub("", QUOTES.sub("", token.string))
                for paragraph in re.split(r"\n\s*\n", text):
                    yield token.start[0], paragraph


def read_page(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines and texts of paragraphs, list items and cells outside of code."""
    text = re.sub(r"(?ms)^( *)```.*?^\1```$", "", path.read_text("utf-8"))
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.))|\|", text):
        yield 0, paragraph


def count_names(path: Path, odd: list[str], long: list[str], constants: list[str]) -> int:
    """Add names that need translating to the lists; returns how many functions there are."""
    tree = ast.parse(path.read_text("utf-8"))
    function_count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            place = f"{path}:{node.lineno}: {node.name}"
            if not node.name.startswith("__"):
                function_count += 1
            if has_odd_name(node):
                odd.append(place)
            if len(node.name) > LONG_NAME:
                long.append(place)
    if path.name != "plug.py":  # its constants have the names that the core asks for
        for name in list_module_names(tree):
            is_one_word = "_" not in name.id.strip("_") and len(name.id) > len("ID")
            if name.id.isupper() and is_one_word and name.id not in PLUG_NAMES:
                constants.append(f"{path}:{name.lineno}: {name.id}")
    return function_count


def has_odd_name(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a name begins with a participle or a preposition, and is no conversion."""
    name = function.name.lstrip("_")
    decorators = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    if "property" in decorators or CONVERSION.fullmatch(name):
        return False
    first_word = name.split("_")[0]
    return first_word in PREPOSITIONS or PARTICIPLE.fullmatch(first_word) is not None


def list_module_names(module: ast.Module) -> Iterator[ast.Name]:
    """Yield the names that assignments of a module bind."""
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node


def main(arguments: list[str]) -> int:
    """Print each figure with its bound; returns 1 if one is exceeded."""
    counts: defaultdict[str, Count] = defaultdict(Count)
    odd_names: defaultdict[str, list[str]] = defaultdict(list)
    constants: defaultdict[str, list[str]] = defaultdict(list)
    functions: Counter[str] = Counter()
    long_names: list[str] = []
    for kind in FOLDERS:
        for path in list_files(kind):
            for line, passage in read_code(path):
                counts[kind].add(f"{path}:{line}", passage)
            functions[kind] += count_names(path, odd_names[kind], long_names, constants[kind])
    for path in list_files("pages"):
        for _, passage in read_page(path):
            counts["pages"].add(str(path), passage)
    code = counts["code"]
    pages = counts["pages"]
    rates = {kind: 1000 * len(count.odd) / count.words for kind, count in counts.items()}
    shares = {kind: 100 * len(odd_names[kind]) / functions[kind] for kind in FOLDERS}
    rows = zip(
        BOUNDS,
        (
            (rates["code"], code.odd),
            (rates["pages"], pages.odd),
            (len(code.long), code.long),
            (len(pages.long), pages.long),
            (shares["code"], odd_names["code"]),
            (len(constants["code"]), constants["code"]),
            (rates["tests"], counts["tests"].odd),
            (shares["tests"], odd_names["tests"]),
            (len(long_names), long_names),
        ),
        strict=True,
    )
    status = 0
    for name, (figure, places) in rows:
        is_over = figure > BOUNDS[name]
        status |= is_over
        ending = " - too many" if is_over else ""
        print(f"{name}: {figure:.4g} (at most {BOUNDS[name]:g}){ending}")
        if "--which" in arguments:
            print(*(f"  {place}" for place in places), sep="\n")
    if status and "--which" not in arguments:
        print("Say these more plainly: python .ci/words.py --which lists them.")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
