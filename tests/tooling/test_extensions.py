"""The product works without its extensions, and the page on extensions shows one that works."""

import json
import re
import shutil
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest
import typer
from typer.testing import CliRunner

from noted_time import Rejected, extensions
from noted_time.extensions import find_extensions, name_check
from noted_time.own_extensions import MOVED_NAMES, OWN_NAMES
from noted_time_cli.app import app
from reader_client.protocol.datasets import open_dataset
from tests.core.test_not_known import list_defaults
from tests.support.core_tests import WITH_EXTENSIONS
from tests.support.page import read_page
from tests.support.processes import run_python
from tests.tooling.wheels import EXTENSIONS, PACKAGES, ROOT
from tools.trials.served import Served

PATH = f"import sys; sys.path[:] = [each for each in sys.path if each != {str(ROOT)!r}]; "
"""Makes a program import the packages of a copy only, as this clone is on Python's path."""

IMPORT_ALL = """
from importlib import import_module
from pkgutil import walk_packages

for package in {packages}:
    root = import_module(package)
    for module in walk_packages(root.__path__, f"{{package}}."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
"""

CALL = "from noted_time_cli.app import app; app(prog_name='noted-time')"

NOWHERE = ("--url", "http://127.0.0.1:9")

NEEDED = re.compile(r"^- \*\*Of other extensions\*\* it needs (.*?)[.,]", re.MULTILINE)
"""The line of a README that names the extensions that its own one imports."""

IMPORTED = re.compile(r"^ *(?:from|import) noted_time_extensions", re.MULTILINE)

TITLED = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def list_needed(extension: str) -> list[str]:
    """Return the extensions that the README says the extension needs."""
    readme = ROOT / "noted_time_extensions" / extension / "README.md"
    (clause,) = NEEDED.findall(readme.read_text())
    return re.findall(r"`(\w+)`", clause)


def copy_without(directory: Path, extension: str) -> None:
    """Copy the packages without an extension and its dependents, or without all for "*"."""
    for package in (*PACKAGES, "migrations"):
        ignored_names = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(ROOT / package, directory / package, ignore=ignored_names)
    dependents = [name for name in EXTENSIONS if extension in list_needed(name)]
    for name in (extension, *dependents):
        for folder in directory.glob(f"noted_time_extensions/{name}"):
            shutil.rmtree(folder)


@pytest.mark.parametrize("extension", ["*", *EXTENSIONS])
def test_the_others_work_without_an_extension(tmp_path: Path, extension: str) -> None:
    """Each module can be imported, `--help` works, and its command names the missing extension."""
    copy_without(tmp_path, extension)
    run = partial(run_python, "-c", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    packages = [
        package for package in PACKAGES if extension != "*" or package != "noted_time_extensions"
    ]
    names = EXTENSIONS if extension == "*" else [extension]
    own_words = [words for words, owner in OWN_NAMES.items() if owner == names[0]]
    command = next(words for words in own_words if "--" not in words)

    import_process = run(PATH + IMPORT_ALL.format(packages=packages))
    help_process = run(PATH + CALL, "--help")
    call_process = run(PATH + CALL, *command.split())

    assert (import_process.returncode, import_process.stderr) == (0, "")
    assert (help_process.returncode, "demo-stream" in help_process.stdout) == (0, True)
    says = f"{command!r} is of the extension {names[0]}, and it is not installed"
    error_text = " ".join(call_process.stderr.replace("│", " ").split())
    assert (call_process.returncode, says in error_text) == (2, True)


def test_own_names_are_those_of_the_plugs() -> None:
    """The table is read if an extension is not installed, so it repeats the plugs."""
    extension_names: dict[str, str] = {}
    for extension in find_extensions().used:
        extension_names |= {command.words: extension.name for command in extension.commands}
        extension_names |= {f"{scheme}:": extension.name for scheme in extension.datasets}
        extension_names |= {name_check(option): extension.name for option in extension.checks}

    assert extension_names == OWN_NAMES


def test_tests_that_import_extensions_are_listed(root: Path) -> None:
    """All others run in a copy without extensions."""
    modules = [path for path in (root / "tests").rglob("*.py") if IMPORTED.search(path.read_text())]
    listed_paths = [root / path for path in WITH_EXTENSIONS]

    for path in listed_paths:
        assert path.exists()
    for module in modules:
        assert any(module.is_relative_to(path) for path in listed_paths), module


@pytest.mark.parametrize("name", MOVED_NAMES)
def test_a_moved_name_says_where_it_is(name: str) -> None:
    package, _, attribute = name.rpartition(".")
    with pytest.raises(ImportError, match=f"{name} is {MOVED_NAMES[name]} now"):
        getattr(import_module(package), attribute)

    assert resolve_name(MOVED_NAMES[name])


@pytest.fixture
def without_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """No extension is installed."""
    monkeypatch.setattr(extensions, "_list_names", lambda: iter(()))


@pytest.mark.usefixtures("without_extensions")
@pytest.mark.parametrize("scheme", ["delta", "iceberg"])
def test_a_dataset_says_which_extension_it_needs(scheme: str) -> None:
    says = f"'{scheme}:' is of the extension tables, and it is not installed: pip install"

    with pytest.raises(Rejected, match=re.escape(says)):
        open_dataset(f"{scheme}:orders")


@pytest.mark.usefixtures("without_extensions")
def test_doctor_says_which_extension_a_check_needs() -> None:
    result = CliRunner().invoke(app, ["doctor", "flights", *NOWHERE, "--log", "logs", "--json"])

    (finding,) = [
        verdict
        for verdict in json.loads(result.stdout)["verdicts"]
        if verdict["check"] == "file log"
    ]
    says = "'doctor --log' is of the extension files, and it is not installed"
    assert (finding["outcome"], finding["fact"]) == ("not checked", says)
    assert finding["remedy"].startswith("pip install")


@pytest.mark.parametrize("name", EXTENSIONS)
def test_a_plug_shows_the_help_of_its_commands(name: str) -> None:
    for command in import_module(f"noted_time_extensions.{name}.plug").COMMANDS:
        module, _, attribute = command.function.partition(":")
        function = getattr(import_module(module), attribute)
        if isinstance(function, typer.Typer):
            assert command.help in {function.info.short_help, function.info.help}
        else:
            assert function.__doc__.startswith(command.help)


@pytest.mark.parametrize("group", ["observe", "observe kafka", "relay"])
def test_a_group_shows_all_commands_in_one_panel(group: str) -> None:
    """The commands of an extension stand among those of the core."""
    shown = CliRunner().invoke(app, [*group.split(), "--help"]).stdout

    assert re.findall(r"╭─ (.+?) ─", shown) == ["Options", "Commands"]


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_has_a_short_readme(root: Path, name: str) -> None:
    folder = root / "noted_time_extensions" / name
    text = (folder / "README.md").read_text()
    pages = re.findall(r"\]\((\S+?\.md)\)", text)

    assert (len(text.splitlines()) <= 12, len(pages) > 0) == (True, True)
    assert [page for page in pages if not (folder / page).exists()] == []


def test_default_values_of_extensions_mean_not_known() -> None:
    defaults = dict(list_defaults("noted_time_extensions"))

    assert [name for name, default in defaults.items() if default is True] == []


def test_the_extension_of_the_page_is_built_and_called(served: Served, tmp_path: Path) -> None:
    """It has at most 40 lines, and is listed with ours."""
    files = dict(TITLED.findall(read_page("docs/guides/extensions.md")))
    source = tmp_path / "source"
    installed_folder = tmp_path / "installed"
    for name, text in {**files, "noted_time_extensions/latest/__init__.py": ""}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    build_process = run_python("-m", "hatchling", "build", "-t", "wheel", cwd=source)
    (wheel,) = source.glob("dist/*.whl")
    quiet = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    run_python(
        "-m", "pip", "install", *quiet, "--target", installed_folder, wheel
    ).check_returncode()
    stream = served.new()
    variables = {"NOTED_TIME_URL": served.url, "PYTHONPATH": f"{ROOT}:{installed_folder}"}
    run = partial(run_python, "-m", "noted_time", cwd=tmp_path, **variables)
    before = run("latest", stream)
    served.post(stream, {"writer": "UA", "time": 1_357_034_400_000, "position": {"0": 5}})
    after = run("latest", stream)
    version = run("--version")

    python = [files[name] for name in files if name.endswith(".py")]
    assert sum(len(text.splitlines()) for text in python) <= 40
    assert build_process.returncode == 0
    assert (before.returncode, before.stderr) == (1, f"noted-time: {stream} has no mark yet\n")
    assert (after.returncode, after.stdout) == (0, "2013-01-01T10:00:00Z\n")
    assert version.stdout.endswith("extensions analyse, debezium, files, latest, observe, tables\n")
    assert "noted_time_extensions.latest" not in sys.modules
