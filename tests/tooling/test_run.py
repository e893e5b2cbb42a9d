"""How ./run makes its environment, finds a Java, and tries properties and releases of Spark."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from contextlib import nullcontext
from io import StringIO
from itertools import chain, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

import spark_integration
from spark_integration.session.versions import NEEDED_RELEASES, OLDEST, parse_release
from tests.support.spark_table import PAGE, TABLE, render_table, replace_table
from tools.install import environments, java, progress, suites
from tools.install.progress import Installation

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("--no-compile", "--no-deps", "--require-hashes", "-r")
"""The options that install the environments other than .venv."""

PIP_LINES = """Ignoring colorama: markers 'sys_platform == "win32"' don't match your environment
Requirement already satisfied: numpy==2 in ./lib/python3.11/site-packages (2)
Collecting httpx==1 (from -r some.lock (line 2))
  Downloading httpx-1-py3-none-any.whl (73 kB)
Collecting pyspark==4.3.0 (from -r some.lock (line 4))
  Downloading pyspark-4.3.0.tar.gz (456.0 MB)
  Building wheel for pyspark (pyproject.toml): started
Installing collected packages: pyspark, httpx
"""

posix = pytest.mark.skipif(os.name == "nt", reason="run starts other programs by exec")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the scripts install into an empty clone."""
    (tmp_path / "locks").mkdir()
    for name in (*environments.LOCK_NAMES, "spark-3.5"):
        (tmp_path / "locks" / f"{name}.lock").write_text(f"{name}==1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    for name in ("LOCK", "LOCKS", "VENV", "PYTHON"):
        place = tmp_path / getattr(environments, name).relative_to(environments.ROOT)
        monkeypatch.setattr(environments, name, place)
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def installs(clone: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Record what would be made and installed, without doing it."""
    calls: list[tuple[str, ...]] = []

    def make_venv(_env: object, home: Path, _python: object) -> None:
        calls.append(("venv", home.name))
        home.mkdir(exist_ok=True)

    monkeypatch.setattr(environments, "make_venv", make_venv)

    def pip(_env: object, _home: Path, *arguments: str) -> None:
        calls.append(arguments)

    monkeypatch.setattr(environments, "pip", pip)
    monkeypatch.setattr(environments, "runs", lambda _env, *_words: (clone / ".venv").exists())
    return calls


def test_later_runs_install_a_changed_lock(clone: Path, installs: list[tuple[str, ...]]) -> None:
    """First the locked packages, then this project; a stamp has the lock."""
    environments.usual({})
    first = installs.copy()
    environments.usual({})
    later_calls = installs[len(first) :]
    (clone / "locks" / "all.lock").write_text("one==2\n")
    environments.usual({})

    locked_call = ("--require-hashes", "-r", str(clone / "locks" / "all.lock"))
    own_call = ("--quiet", "--no-deps", "--no-build-isolation", "--editable", str(clone))
    assert (first, later_calls) == ([("venv", ".venv"), locked_call, own_call], [])
    assert installs[len(first) :] == [locked_call, own_call]


def test_a_command_uses_the_packages_of_a_larger_one(
    clone: Path, installs: list[tuple[str, ...]]
) -> None:
    """It installs nothing, whichever was first; and a larger one adds what it needs."""
    for name in ("lean", "demo", "lean", "analyse", "demo", "all", "demo", "lean", "all"):
        environments.usual({}, name)

    own_call = ("--quiet", "--no-deps", "--no-build-isolation", "--editable", str(clone))
    assert installs == [
        ("venv", ".venv"),
        (*BESIDE, str(clone / "locks" / "lean.lock")),
        own_call,
        (*BESIDE, str(clone / "locks" / "demo.lock")),
        own_call,
        ("--require-hashes", "-r", str(clone / "locks" / "all.lock")),
        own_call,
    ]


@pytest.mark.parametrize(
    ("words", "lock"),
    [
        ("serve", "lean"),
        ("kafka --topic departures:2", "lean"),
        ("kafka --fetch", "all"),
        ("java", "lean"),
        ("noted-time explain orders", "lean"),
        ("noted-time analyse kafka 127.0.0.1 orders", "analyse"),
        ("demo --kafka", "demo"),
        ("demo --tables", "all"),
        ("python produce.py", "demo"),
        ("spark-submit hourly.py", "all"),
        ("check", "all"),
    ],
)
def test_a_command_installs_the_packages_that_it_needs(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, lock: str
) -> None:
    monkeypatch.chdir(tmp_path)
    prepared: list[str] = []

    def prepare(name: str, **_: object) -> dict[str, str]:
        prepared.append(name)
        return {"PYSPARK_PYTHON": "python"}

    monkeypatch.setattr(run, "prepare", prepare)
    monkeypatch.setattr(run, "become", lambda _env, _words: 0)
    run.main(words.split())

    assert prepared == [lock]


def test_a_clone_that_has_moved_gets_a_new_venv(
    clone: Path, installs: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripts in a venv name the place they were made for."""
    environments.usual({})
    installs.clear()
    monkeypatch.setattr(environments, "ROOT", clone / "moved")
    shutil.copytree(clone, clone / "moved", ignore=shutil.ignore_patterns("moved"))

    environments.usual({})

    assert installs[0] == ("venv", ".venv")


@pytest.fixture
def other(clone: Path) -> Path:
    """Return an environment, made for another clone, which `.venv` and `.venv-stores` link to."""
    environment = clone / "other" / ".venv"
    environment.mkdir(parents=True)
    (environment / environments.STAMP).write_text(f"0123 {environment.parent}")
    for name in (".venv", ".venv-stores"):
        (clone / name).symlink_to(environment)
    return environment


def test_link_to_environment_of_another_clone_is_refused(
    other: Path, installs: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        environments.usual({})
    with pytest.raises(SystemExit):
        environments.beside({}, "stores", environments.LOCK, sys.executable)

    says = f"is a link to {other}, made for another clone: remove the link.\n"
    assert capsys.readouterr().err == f"run: .venv {says}run: .venv-stores {says}"
    assert (installs, [*other.iterdir()]) == ([], [other / environments.STAMP])


def test_own_link_is_updated(clone: Path, other: Path, installs: list[tuple[str, ...]]) -> None:
    (other / environments.STAMP).write_text(f"0123 {clone}")

    environments.usual({})

    assert (len(installs), environments.read(other / environments.STAMP).split()[-1]) == (
        2,
        str(clone),
    )


def test_environment_behind_a_link_is_made_at_its_target(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")

    environments.make_venv({**os.environ}, tmp_path / "link", sys.executable)

    assert environments.python_of(tmp_path / "there").exists()


@pytest.mark.usefixtures("installs")
def test_an_interrupted_install_is_done_again(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a finished install leaves a stamp."""
    monkeypatch.setattr(environments, "pip", Mock(side_effect=KeyboardInterrupt))

    with pytest.raises(KeyboardInterrupt):
        environments.usual({})

    assert not (clone / ".venv" / "installed.stamp").exists()


@pytest.mark.parametrize(
    ("python", "shown"), [("print('none')", ""), ("1 / 0", "ZeroDivisionError")]
)
def test_pip_output_is_shown_only_on_failure(
    clone: Path, capfd: pytest.CaptureFixture[str], python: str, shown: str
) -> None:
    """The lines of a failure say what to do."""
    pip = clone / ".venv" / environments.BIN.name / "python"
    pip.parent.mkdir(parents=True)
    pip.write_text(f"#!{sys.executable}\n{python}\n")
    pip.chmod(0o755)
    with nullcontext() if not shown else pytest.raises(SystemExit):
        environments.pip({}, clone / ".venv", "one==1")

    output = capfd.readouterr()
    assert (output.out, shown in output.err, "none" in output.err) == ("", True, False)


def test_an_installation_says_how_many_packages_are_done(tmp_path: Path) -> None:
    """A package of another system does not count; a large one shows how much is there."""
    lock = tmp_path / "some.lock"
    lock.write_text("colorama==1\nhttpx==1\nnumpy==2\npyspark[connect]==4.3.0 \\\n")
    scratch = tmp_path / "scratch" / "pip-unpack-1"
    scratch.mkdir(parents=True)
    (scratch / "pyspark-4.3.0.tar.gz").write_bytes(b"0" * 3_000_000)
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    (packages / "pip-1.dist-info").mkdir(parents=True)
    installation = Installation(tmp_path, scratch.parent, lock)
    sentences = []
    for line in PIP_LINES.splitlines():
        installation.read(line)
        sentences.append(installation.describe())
    (packages / "httpx-1.dist-info").mkdir()

    assert sentences == [
        "0 of 3 packages fetched",
        "1 of 3 packages fetched",
        "1 of 3 packages fetched",
        "1 of 3 packages fetched: httpx-1-py3-none-any.whl (73 kB)",
        "2 of 3 packages fetched",
        "2 of 3 packages fetched: pyspark-4.3.0.tar.gz (456.0 MB), 3 MB are there",
        "3 of 3 packages fetched: building pyspark",
        "0 of 2 packages installed",
    ]
    assert installation.describe() == "1 of 2 packages installed"


def show_progress() -> None:
    """Show how far an installation is, at least once."""
    is_described = threading.Event()

    def describe() -> str:
        is_described.set()
        return "1 of 2 packages fetched"

    with progress.showing(describe):
        assert is_described.wait(60)


def test_progress_is_a_line_now_and_then_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The line does not return to its start."""
    monkeypatch.setattr(progress, "PLAIN_INTERVAL_S", 0.001)
    show_progress()

    first_line, *_ = capfd.readouterr().err.splitlines()
    assert first_line == "1 of 2 packages fetched."


def test_progress_is_rewritten_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the end, nothing is left of it."""
    terminal = Terminal()
    monkeypatch.setattr(progress, "TERMINAL_INTERVAL_S", 0.001)
    monkeypatch.setattr(sys, "stderr", terminal)
    show_progress()

    line_start = "\r\x1b[K"
    assert terminal.getvalue().startswith(f"{line_start}1 of 2 packages fetched{line_start}")
    assert terminal.getvalue().endswith(line_start)


class Terminal(StringIO):
    """Text that is written to a terminal."""

    def isatty(self) -> bool:
        return True


def test_spark_and_python_of_the_shell_are_ignored() -> None:
    """A data engineer's shell often sets SPARK_HOME, which would win over the locked PySpark."""
    inherited_variables = {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "SPARK_HOME": "/opt/spark",
        "PYSPARK_PYTHON": "python2",
        "PYTHONPATH": "/elsewhere",
    }

    assert environments.clean_environment(inherited_variables) == {
        "PATH": f"{environments.BIN}{os.pathsep}/bin",
        "HOME": "/home/ada",
        "VIRTUAL_ENV": str(environments.VENV),
        "PYSPARK_PYTHON": str(environments.PYTHON),
        "PYSPARK_DRIVER_PYTHON": str(environments.PYTHON),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PIP_USER": "0",
    }


def test_an_old_python_is_refused_with_the_remedy(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command is refused."""
    monkeypatch.setattr(sys, "version_info", (3, 9))
    with pytest.raises(SystemExit):
        run.main(["check"])

    assert "needs Python 3.11 or newer and this is 3.9" in capsys.readouterr().err


def test_old_python_parses_the_script(root: Path) -> None:
    """Its imports do, too."""
    for script_file in (root / "run", *(root / "tools" / "install").glob("*.py")):
        ast.parse(script_file.read_text(), feature_version=(3, 7))


def test_help_names_every_command_and_suite(run: ModuleType, root: Path, tmp_path: Path) -> None:
    """Help needs neither an environment nor any package, and works from anywhere."""
    words = [sys.executable, "-S", str(root / "run"), "--help"]
    help_text = subprocess.check_output(words, cwd=tmp_path, text=True)

    commands = [f"\n  {name} " for name in (*run.PROGRAMS, *run.CHORES)]
    assert [word for word in (*commands, suites.format_suites()) if word not in help_text] == []


def test_help_separates_suites_from_their_descriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may be of any length."""
    long_suite = suites.Suite("--a-suite-with-a-long-name", "its tests")
    monkeypatch.setattr(suites, "SUITES", (*suites.SUITES, long_suite))
    lines = suites.format_suites().splitlines()

    columns = [re.split(" {2,}", line.strip()) for line in lines]
    assert columns == [[suite.option, suite.what] for suite in suites.SUITES]


def test_contributing_has_the_table_of_suites(root: Path) -> None:
    """It is printed by `suites.table()`; a build calls them from there, too."""
    assert suites.table() in (root / "CONTRIBUTING.md").read_text()
    assert [suite.name for suite in suites.NAMED if not suite.folders] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("tset", "there is no command 'tset': did you mean test? choose one of demo, test, check,"),
        ("docs --opne", "there is no option --opne: use one of --open, --public-url, --help, -h."),
        ("test --spark", "--spark takes one of 3.5, 4.0, 4.1, 4.2, 4.3.\n"),
        ("test --spark=2.4", "--spark takes one of 3.5, 4.0, 4.1, 4.2, 4.3.\n"),
        ("test -x --spark 3.5.9", "--spark takes one of 3.5, 4.0, 4.1, 4.2, 4.3.\n"),
    ],
)
def test_an_unknown_word_is_refused_with_the_known(
    run: ModuleType, capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    """A typo installs nothing."""
    with pytest.raises(SystemExit, match="2"):
        sys.exit(run.main(words.split()))

    assert capsys.readouterr().err.startswith(f"run: {says}")


def test_docs_have_the_options_of_their_program(run: ModuleType, root: Path) -> None:
    program = (root / "docs" / "site" / "build.py").read_text()

    options = {*re.findall(r'add_argument\(\s*"(--[a-z-]+)"', program), "--help", "-h"}
    assert {*run.PROGRAMS["docs"].options} == options


@posix
def test_hints_name_the_command_of_the_clone(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The hint works in the user's directory, which may be outside the clone."""
    started_programs: list[tuple[str, str]] = []

    def become(env: dict[str, str], words: list[str]) -> int:
        started_programs.append((Path(words[0]).name, env["NOTED_TIME_PROGRAM"]))
        return 0

    monkeypatch.setattr(run, "prepare", lambda _, **__: {"PYSPARK_PYTHON": "python"})
    monkeypatch.setattr(run, "become", become)
    for place, arguments in ((run.ROOT, ["noted-time", "explain", "x"]), (tmp_path, ["python"])):
        monkeypatch.chdir(place)
        run.main(arguments)

    elsewhere = f"{os.path.relpath(run.ROOT, tmp_path)}/run noted-time"
    assert started_programs == [("noted-time", "./run noted-time"), ("python", elsewhere)]


# How ./run finds a Java that can run Spark, or makes one that can


def script(path: Path, body: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_java(home: Path, release: str) -> Path:
    """Write a java that claims to be this release, and return its home."""
    version_text = f"    java.home = {home}\n    java.specification.version = {release}"
    script(home / "bin" / "java", f"cat >&2 <<'END'\n{version_text}\nEND")
    return home


@posix
@pytest.mark.parametrize(("release", "chosen"), [("17", 0), ("11", 1), ("1.8", 1)])
def test_java_home_is_preferred_unless_old(tmp_path: Path, release: str, chosen: int) -> None:
    """Java 11 cannot run Spark, wherever it is; Java 8 called itself 1.8."""
    homes = fake_java(tmp_path / "a home", release), fake_java(tmp_path / "a new one", "21")
    env = {"JAVA_HOME": str(homes[0]), "PATH": f"{homes[1] / 'bin'}:{os.defpath}"}

    assert java.find(env) == str(homes[chosen])


@posix
def test_java_without_the_vector_module_is_skipped(tmp_path: Path) -> None:
    """A runtime without the vector module refuses to start under Spark."""
    script(tmp_path / "bin" / "java", "echo 'Module jdk.incubator.vector not found'; exit 1")

    assert java.find({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path / "empty")}) is None


@posix
def test_the_wrapper_drops_the_vector_module_and_nothing_else(tmp_path: Path) -> None:
    """Arguments keep their order and their spaces, and the path may have its own."""
    printing = script(tmp_path / "it's a runtime" / "java", """printf '<%s>' "$@" """)
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(java.wrapped(str(printing)))
    command = ["sh", str(wrapper), "-cp", "a b", java.VECTOR_MODULE, "", "--add-modules=x", "$HOME"]

    wrapper_output = subprocess.check_output(command, text=True)

    assert wrapper_output == "<-cp><a b><><--add-modules=x><$HOME>"


# Promises of the committed requirement locks


CONTAINER = ["container", "container-build"]
LOCKS = [f"locks/{lock.name}" for lock in environments.LOCKS.glob("*.lock")]


def pins(lock: Path) -> dict[str, list[str]]:
    """Return the pinned versions per distribution."""
    pins_by_name: dict[str, list[str]] = {}
    for name, version in re.findall(
        r"^([\w.-]+)(?:\[.*\])?==(\S+)", lock.read_text(), re.MULTILINE
    ):
        pins_by_name.setdefault(name, []).append(version)
    return pins_by_name


def list_requirements(root: Path) -> set[str]:
    """Return every distribution that pyproject.toml asks for."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    groups = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    return {re.split(r"[^\w.-]", line)[0] for line in chain.from_iterable(groups)}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_requirement_is_pinned_and_hashed(root: Path, lock: str) -> None:
    """Pip refuses a lock with a line without a hash. No line names an index."""
    text = re.sub(r"^\s*#.*\n", "", (root / lock).read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", "").splitlines()

    pin_pattern = r"[\w.-]+(\[.*\])?==\S+( ; [^-]+)?( +--hash=sha256:[0-9a-f]{64})+ *"
    assert [line for line in lines if not re.fullmatch(pin_pattern, line)] == []


def test_lock_has_every_requirement_of_the_project(root: Path) -> None:
    """A dependency added without `./run lock` is noticed here."""
    assert list_requirements(root) - pins(root / "locks" / "all.lock").keys() == set()


def test_image_has_the_tested_versions(root: Path) -> None:
    """Its lock, and the lock that builds its wheel, have the versions of the usual lock."""
    usual = pins(root / "locks" / "all.lock")
    container, build = (pins(root / "locks" / f"{name}.lock") for name in CONTAINER)
    image = container | build

    assert {name: version for name, version in image.items() if usual.get(name) != version} == {}


@pytest.mark.parametrize(("smaller", "larger"), [*pairwise(environments.LOCK_NAMES)])
def test_a_larger_lock_has_the_versions_of_the_smaller(
    root: Path, smaller: str, larger: str
) -> None:
    """So a command that needs less takes the larger environment as it is."""
    larger_pins = pins(root / "locks" / f"{larger}.lock")
    smaller_pins = pins(root / "locks" / f"{smaller}.lock")

    assert {name for name in smaller_pins if smaller_pins[name] != larger_pins.get(name)} == set()
    assert len(larger_pins) > len(smaller_pins)


def test_pandas_is_a_version_that_spark_supports(root: Path) -> None:
    """PySpark 4.3 warns about pandas 3."""
    locked_pins = pins(root / "locks" / "all.lock")

    assert [v.split(".")[0] for v in locked_pins["pyspark"] + locked_pins["pandas"]] == ["4", "2"]


# How `./run test --spark V` tests one release of Spark, and the statements of pages on each


@pytest.fixture
def table() -> dict[str, Any]:
    """Return the recorded results of the runs."""
    json_table: dict[str, Any] = json.loads(TABLE.read_text())
    return json_table


def test_page_has_the_table_of_spark_releases(table: dict[str, Any]) -> None:
    """`./run test --spark V` writes it for one release; it is not edited."""
    text = PAGE.read_text()

    assert render_table(table) in text
    assert replace_table(text, render_table(table)) == text


def test_table_has_the_installed_releases(root: Path, table: dict[str, Any]) -> None:
    """A lock with another PySpark has to be run again."""
    locks = {lock.stem: lock for lock in (root / "locks").glob("spark-*.lock")}
    pins_by_release = {
        name.removeprefix("spark-"): pins(lock)["pyspark"] for name, lock in locks.items()
    }
    locked_versions = {release: version for release, (version,) in pins_by_release.items()}
    (newest,) = pins(root / "locks" / "all.lock")["pyspark"]

    expected = {**locked_versions, newest.rpartition(".")[0]: newest}
    assert {release: release_row["pyspark"] for release, release_row in table.items()} == expected


def test_releases_that_passed_are_accepted(table: dict[str, Any]) -> None:
    """`NEEDED_RELEASES` has the oldest release of a feature; other features work with all."""
    features = set[str]()
    for release_row in table.values():
        features.update(release_row["passed"])
    kafka = {"read_noted_kafka": NEEDED_RELEASES['read_noted_kafka(marks="ahead")']}
    needs = {
        feature: {**NEEDED_RELEASES, **kafka}.get(feature)
        for feature in features & {*spark_integration.__all__}
    }
    for release, release_row in table.items():
        expected = {
            feature for feature, need in needs.items() if parse_release(release) >= (need or OLDEST)
        }
        assert needs.keys() & {*release_row["passed"]} == expected


def test_other_spark_precedes_the_usual_one(clone: Path, installs: list[tuple[str, ...]]) -> None:
    """Installed once by its hash alone, so that every other pin stays in one lock."""
    home = clone / ".venv-spark-3.5"
    packages = home / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)

    variables = environments.spark({"PATH": "/bin"}, "3.5")
    environments.spark({"PATH": "/bin"}, "3.5")

    lock = str(clone / "locks" / "spark-3.5.lock")
    assert installs == [("venv", home.name), (*BESIDE, lock)]
    assert str(clone / ".venv" / packages.relative_to(home)) in (packages / "usual.pth").read_text()
    assert variables["PYSPARK_PYTHON"] == str(environments.python_of(home))


@pytest.mark.parametrize(
    ("command", "module"), [("kafka", "tools.trials.run_kafka"), ("java", "tools.trials.java")]
)
def test_a_broker_for_trials_needs_no_spark(  # noqa: PLR0913, PLR0917 - what there is to replace
    run: ModuleType,
    clone: Path,
    installs: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    module: str,
) -> None:
    """Its packages are installed once; the interceptor for Java needs the same."""
    monkeypatch.chdir(clone)
    monkeypatch.setattr(java, "find", lambda _env: "a java")
    started_programs: list[tuple[str, list[str]]] = []

    def become(env: dict[str, str], words: list[str]) -> int:
        started_programs.append((env["JAVA_HOME"], words[1:]))
        return 0

    monkeypatch.setattr(run, "become", become)
    run.main([command])
    run.main([command])

    assert started_programs == 2 * [("a java", ["-m", module])]
    made, locked, own = installs
    assert (made, locked[-1], own[-1]) == (
        ("venv", ".venv"),
        str(clone / "locks" / "lean.lock"),
        str(clone),
    )
    assert "pyspark" not in pins(ROOT / "locks" / "lean.lock")


def test_help_of_a_broker_installs_nothing(
    run: ModuleType, installs: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    """It lists the options without the packages of a broker."""
    status = run.main(["kafka", "--help"])

    assert (status, installs) == (0, [])
    assert "--topic NAME:PARTITIONS" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "home"), [("demo", ".venv"), ("stores", ".venv-stores")])
def test_a_suite_has_its_own_environment_by_its_lock(
    clone: Path, installs: list[tuple[str, ...]], name: str, home: str
) -> None:
    """The lock of the demo is one of .venv, where its suite finds everything."""
    (clone / "locks" / "stores.lock").write_text("moto==1\n")

    programs = environments.find_programs({}, name)

    assert programs == clone / home / environments.BIN.name
    assert len(installs) == (2 if name == "stores" else 0)


def test_a_flag_of_a_suite_is_not_for_pytest(run: ModuleType) -> None:
    """The words around it are."""
    words = ["-x", "--dbt", "tests/dbt"]

    (suite,) = run.chosen_suites(words)

    folders = ["tests/dbt", "noted_time_extensions/tables/tests/dbt"]
    assert (suite.folders, words) == (folders, ["-x", "tests/dbt"])


@pytest.mark.parametrize("words", [["-x", "--spark", "4.1"], ["--spark=4.1", "-x"]])
def test_a_spark_is_named_in_both_spellings(run: ModuleType, words: list[str]) -> None:
    assert (run.chosen_spark(words), words) == ("4.1", ["-x"])


def test_suites_import_spark_from_its_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark puts the archive on the path of its Python processes."""
    monkeypatch.setenv("NOTED_TIME_CLUSTER", "bin")
    monkeypatch.setattr("sys.path", ["/spark/python/lib/pyspark.zip"])
    exec(environments.COMPILED_PYSPARK)  # noqa: S102 - as `site` does with the file

    assert sys.path == ["/spark/python/lib/pyspark.zip"]
