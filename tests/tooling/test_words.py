"""Public names have docstrings, and the count of odd words sees what it should."""

import importlib
import inspect
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

PUBLIC = ("noted_time", "writer_client", "reader_client", "spark_integration")


@pytest.fixture(scope="module")
def words(root: Path) -> ModuleType:
    """Load the script that `./run check` calls."""
    spec = spec_from_file_location("plain_words", root / ".ci" / "words.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)  # its dataclass looks there
    spec.loader.exec_module(module)
    return module


def list_undocumented(package: str) -> Iterator[str]:
    """Yield the public names of a package, and their public methods, without a docstring."""
    module = importlib.import_module(package)
    for name in module.__all__:
        public = getattr(module, name)
        if inspect.isclass(public) or inspect.isfunction(public):
            if not inspect.getdoc(public):
                yield f"{package}.{name}"
            for each, member in vars(public).items() if inspect.isclass(public) else ():
                is_ours = inspect.isfunction(member) or isinstance(member, property | classmethod)
                if is_ours and not each.startswith("_") and not inspect.getdoc(member):
                    yield f"{package}.{name}.{each}"


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names_have_docstrings(package: str) -> None:
    """Users read them in the reference."""
    assert list(list_undocumented(package)) == []


def test_a_page_is_counted_without_its_code(words: ModuleType, tmp_path: Path) -> None:
    """Prose is counted by paragraph, so a heading does not lengthen a sentence."""
    page = tmp_path / "page.md"
    long = "word " * 29
    page.write_text(f"# A heading\n\nThat of whoever.\n\n```\nwhat is\n```\n\n{long}\n")
    count = words.Count()

    for _, passage in words.read_page(page):
        count.add("page", passage)

    assert (count.odd, len(count.long), count.words) == (
        ["page: That of", "page: whoever"],
        1,
        6 + 29,
    )


def test_each_docstring_and_comment_of_code_is_a_passage(words: ModuleType, tmp_path: Path) -> None:
    """Short docstrings that follow each other are not one long sentence."""
    module = tmp_path / "module.py"
    module.write_text('"""One two."""\n\nX = 1  # beside it\nY = "three four"\n"""Five six."""\n')

    passages = [passage for _, passage in words.read_code(module)]

    assert passages == ["One two.", "beside it", "three four", "Five six."]


def test_names_that_need_translating_are_counted(words: ModuleType, tmp_path: Path) -> None:
    """Conversions, properties and constants of two words are the convention."""
    module = tmp_path / "module.py"
    module.write_text(
        "SAID = 1\nPOLL_S = 2\n"
        "def judged(): ...\ndef of_log(): ...\ndef to_json(): ...\ndef find(): ...\n"
        "class A:\n    @property\n    def noted(self): ...\n"
    )
    odd: list[str] = []
    constants: list[str] = []

    functions = words.count_names(module, odd, constants)

    assert ([each.split()[-1] for each in odd], functions) == (["judged", "of_log"], 5)
    assert [each.split()[-1] for each in constants] == ["SAID"]
