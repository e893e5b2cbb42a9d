"""Public names have docstrings."""

import importlib
import inspect
from collections.abc import Iterator

import pytest

PUBLIC = ("noted_time", "writer_client", "reader_client", "spark_integration")


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
