"""The wheel, its extras, the build script and the imports of the core."""

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest

from tests.tooling.wheels import EXTENSIONS, PACKAGES, build, install, link_needs
from tools.install.suites import calls
from tools.trials.waiting import PATIENCE_S

HEAVY = ("fastapi", "rich", "structlog", "sqlalchemy", "typer", "uvicorn", "pyarrow")


class Installation(NamedTuple):
    """The wheel, installed with its declared dependencies alone."""

    wheel: Path
    command: Path
    path: str

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run Python without this environment's packages: with the wheel and its needs alone."""
        return subprocess.run(
            [sys.executable, "-S", *words],
            cwd=cwd,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": self.path},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def add_extra(self, extra: str) -> "Installation":
        """Link to the dependencies of an extra, too, once for all tests."""
        needed_folder = self.wheel.with_name(extra)
        if not needed_folder.exists():
            link_needs(self.wheel, needed_folder, extra=extra)
        return self._replace(path=f"{self.command.parents[1]}{os.pathsep}{needed_folder}")


@pytest.fixture(scope="module")
def wheel_install(tmp_path_factory: pytest.TempPathFactory) -> "Installation":
    """Install the wheel without any extra."""
    directory = tmp_path_factory.mktemp("installed")
    wheel = build(directory)
    command = install(wheel, directory / "own")
    link_needs(wheel, directory / "needed")
    return Installation(wheel, command, f"{directory / 'own'}{os.pathsep}{directory / 'needed'}")


def test_the_wheel_carries_types_migrations_and_sql(wheel_install: Installation) -> None:
    """Each package is marked as typed. `./run test --packages` compares all files."""
    with ZipFile(wheel_install.wheel) as files:
        names = set(files.namelist())

    typed_packages = [*PACKAGES[:-1], *(f"{PACKAGES[-1]}/{name}" for name in EXTENSIONS)]
    expected = {f"{package}/py.typed" for package in typed_packages}
    expected |= {"controller/migrations/env.py", "noted_time_extensions/debezium/heartbeat.sql"}
    assert expected - names == set()


def test_the_base_install_has_the_clients_only(wheel_install: Installation, tmp_path: Path) -> None:
    """They do not need the packages of the controller, the command line and Spark."""
    program = f"""
import importlib.util
from reader_client import ReaderClient
from writer_client import WriterClient
print([name for name in {HEAVY} if importlib.util.find_spec(name)])
"""
    process = wheel_install.run("-c", program, cwd=tmp_path)

    assert (process.stdout, process.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("imported", "says"),
    [
        ("spark_integration", "needs pyarrow: [spark]"),
        ("noted_time_extensions.files.SegmentLogWriter", "needs pyarrow: [files]"),
        ("writer_client.KafkaNotedProducer", "needs confluent_kafka: [kafka]"),
    ],
)
def test_import_error_names_the_extra(
    wheel_install: Installation, tmp_path: Path, imported: str, says: str
) -> None:
    """It is an `ImportError`, so that a program can continue without the extra.

    The command names the wheel that is installed: no index has another one.
    """
    package, _, name = imported.rpartition(".")
    program = f"import {package or name}; {imported}"
    process = wheel_install.run("-c", program, cwd=tmp_path)

    needs, extra = says.split(": ")
    expected = f'{imported} {needs}: pip install "{wheel_install.wheel}{extra}"'
    assert process.stderr.rpartition("\nImportError: ")[2].strip() == expected


def test_extra_cli_calls_and_does_not_serve(wheel_install: Installation, tmp_path: Path) -> None:
    """A machine that only waits needs no server or database; `serve` names its extra."""
    installation = wheel_install.add_extra("cli")
    needed_folder = wheel_install.wheel.with_name("cli")
    waits = ["wait", "s", "5", "--timeout", "0s", "--url", "http://127.0.0.1:9"]
    wait_process = installation.run(str(installation.command), *waits, cwd=tmp_path)
    list_process = installation.run(
        str(installation.command), "stream", "list", "--url", "http://127.0.0.1:9", cwd=tmp_path
    )
    serve_process = installation.run(str(installation.command), "serve", cwd=tmp_path)

    assert not [
        package for package in ("fastapi", "sqlalchemy") if (needed_folder / package).exists()
    ]
    assert (
        wait_process.returncode,
        "s is not known to be complete to 5" in wait_process.stderr,
    ) == (69, True)
    assert (
        list_process.returncode,
        "no answer from http://127.0.0.1:9" in list_process.stderr,
    ) == (69, True)
    says = f': pip install "{installation.wheel}[controller]"\n'
    assert (serve_process.returncode, serve_process.stderr.endswith(says)) == (2, True)


FILES = "noted_time_extensions.files"

NO_KAFKA = "needs confluent_kafka: [kafka]"

NO_TYPER = (
    "the command line needs the extra cli, or controller to serve (No module named 'typer'): [cli]"
)


@pytest.mark.parametrize(
    ("has", "words", "says"),
    [
        ("", "", NO_TYPER),
        ("", "wait s 5", NO_TYPER),
        ("", "-m noted_time --version", NO_TYPER),
        ("", "-m controller serve", NO_TYPER),
        ("cli", "observe kafka ingestion b t", f"noted_time.kafka.Topic {NO_KAFKA}"),
        ("cli", "observe kafka resolved b t --config c", f"--config {NO_KAFKA}"),
        ("cli", "observe log ingestion . s", f"{FILES}.LogEnds needs pyarrow: [files]"),
        ("cli", "analyse files f --time at", "noted-time analyse files needs numpy: [analyse]"),
        ("cli", "relay kafka b t", f"reader_client.KafkaRelay {NO_KAFKA}"),
    ],
)
def test_command_names_the_extra_it_needs(
    wheel_install: Installation, tmp_path: Path, has: str, words: str, says: str
) -> None:
    """With the base install or one extra, the output is one sentence, and the status 2."""
    installation = wheel_install.add_extra(has) if has else wheel_install
    command = [] if words.startswith("-m ") else [str(installation.command)]
    process = installation.run(*command, *words.split(), cwd=tmp_path)

    part, extra = says.split(": ")
    expected = f'noted-time: {part}: pip install "{installation.wheel}{extra}"\n'
    assert (process.returncode, process.stdout, process.stderr) == (2, "", expected)


def test_extra_controller_is_enough_to_serve(wheel_install: Installation, tmp_path: Path) -> None:
    """It starts, and serves; `[files]` and `[spark]` are not needed for it."""
    installation = wheel_install.add_extra("controller")
    version = installation.run(str(installation.command), "--version", cwd=tmp_path)
    serve_process = installation.run(
        "-c", "import controller.api.sockets.server, controller.store.open", cwd=tmp_path
    )

    assert [(process.returncode, process.stderr) for process in (version, serve_process)] == [
        (0, "")
    ] * 2


# The build script, and the rules of layers that import-linter cannot check


def list_imports(module: Path) -> Iterator[str]:
    """Yield the top-level names that a module imports from elsewhere."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0]


def program(path: Path, script: str) -> None:
    """Write a program of the shell."""
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


def run_build(directory: Path, root: Path, statuses: str, allowed_skips: str) -> tuple[int, str]:
    """Run .ci/run over a ./run that prints its name; return the exit code and the output."""
    modules = (root / "tools" / "install").glob("*.py")
    names = [str(module.relative_to(root)) for module in modules]
    for name in (".ci/run", "tools/__init__.py", *names):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes((root / name).read_bytes())
    text = (root / ".ci/build.py").read_text()
    (directory / ".ci/build.py").write_text(
        text.replace("[str, str] = {}", f"[str, str] = {allowed_skips}")
    )
    program(directory / "run", f'echo "called $1"\ncase "$*" in {statuses} esac\n')
    programs = directory / "bin"  # a build installs missing ones of these; a test installs nothing
    programs.mkdir()
    for name in ("nginx", "caddy", "prometheus", "chromium", "buildah", "mmdebstrap"):
        program(programs / name, "")
    process = subprocess.run(
        ["bash", ".ci/run"],
        cwd=directory,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
@pytest.mark.parametrize(
    ("statuses", "allowed", "says"),
    [
        ("", "{}", "all passed"),
        ("test) exit 1;;", "{}", "failed: test"),
        ("test) exit 5;; check) exit 1;;", "{}", "failed: test, check"),
        ("*--dbt*) exit 69;;", "{}", "failed: test --dbt -n 0"),
        ("*--dbt*) exit 69;;", "{'--dbt': 'not here'}", "all passed"),
        ("*--dbt*) echo '== 3 skipped in 0.1s =='; exit 0;;", "{}", "failed: test --dbt -n 0"),
    ],
)
def test_build_names_all_failed_suites(
    tmp_path: Path, root: Path, statuses: str, allowed: str, says: str
) -> None:
    """A skipped suite fails the build, because it was not tested."""
    code, output = run_build(tmp_path, root, statuses, allowed)

    assert output.count("called test") == 1 + len(calls())
    assert "called check" in output
    assert output.splitlines()[-1] == f"ci: {says}"
    assert code == (says != "all passed")


def test_image_is_built_from_all_packages_of_the_wheel(root: Path) -> None:
    """Its ignore file lets each package through."""
    built_from = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    ignore_lines = (root / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()

    packages = built_from["targets"]["wheel"]["packages"]
    assert [name for name in packages if f"!{name}" not in ignore_lines] == []


def test_core_imports_only_msgspec_and_standard_library(root: Path) -> None:
    """import-linter cannot express `nothing else`; it excludes clocks and chance."""
    allowed_modules = sys.stdlib_module_names | {"noted_time", "msgspec"}
    core = root / "noted_time"
    beyond = {core / "client", core / "kafka", core / "tables", core / "stores"}  # which ask others
    beyond.add(core / "analysis")  # computes by numpy
    beyond.add(core / "__main__.py")  # starts the command line
    names = set[str]()
    for file in core.rglob("*.py"):
        if beyond.isdisjoint([file, *file.parents]):
            names.update(list_imports(file))

    assert names - allowed_modules == set()


def test_the_core_reads_no_clock(root: Path) -> None:
    """It takes `datetime`s, and never makes one of the present moment."""
    called_names = set()
    for module in (root / "noted_time").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called_names.add(node.func.attr)

    assert called_names & {"now", "utcnow", "today"} == set()


# Other people's directories with the names of our packages do no harm


@pytest.mark.parametrize(
    "by_module", [False, True], ids=["the command, with PYTHONPATH", "python -m, from there"]
)
def test_command_finds_its_own_packages(
    wheel_install: Installation, tmp_path: Path, *, by_module: bool
) -> None:
    """A directory `controller` of other people is not imported."""
    (tmp_path / "controller").mkdir()
    text = "raise RuntimeError('a package of others')\n"
    (tmp_path / "controller" / "__init__.py").write_text(text)
    installation = wheel_install.add_extra("controller")
    path = installation.path if by_module else f"{tmp_path}{os.pathsep}{installation.path}"
    words = ["-m", "noted_time"] if by_module else [str(installation.command)]
    process = installation._replace(path=path).run(*words, "migrate", cwd=tmp_path)

    is_made = (tmp_path / "noted-time.db").exists()
    assert (process.returncode, process.stderr, is_made) == (0, "", True)


def test_only_tests_of_the_demo_import_it(root: Path) -> None:
    """A change of the demo breaks no other test."""
    importers = []
    for file in (root / "tests").rglob("*.py"):
        if "demo" in list_imports(file):
            importers.append(file.relative_to(root))

    assert importers
    for file in importers:
        assert file.parts[1] == "demo" or file.stem == "test_demo"
