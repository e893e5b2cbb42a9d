"""Makes .venv and the other environments of this clone from the locks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.install.progress import Installation, showing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / "python"
STAMP = "installed.stamp"
"""A file that names the installed lock of an environment."""

LOCKS = ROOT / "locks"
LOCK = LOCKS / "all.lock"
LOCK_NAMES = ("lean", "analyse", "demo", "all")
"""The locks of .venv. Each has the packages of those before it, in the same versions."""

COMMANDS = {
    "lean": "serve, kafka, java, noted-time",
    "analyse": "noted-time analyse",
    "demo": "demo, python",
    "all": "the others, and demo --tables",
}
"""The commands that need the packages of each lock."""

SIZES = {
    "lean": "31 MB to download, 125 MB on disk",
    "analyse": "0.13 GB to download, 0.46 GB on disk",
    "demo": "0.6 GB to download, 1 GB on disk, 2.9 GB meanwhile",
    "all": "456 MB of PySpark to download, 1.7 GB on disk, twice that meanwhile",
    "stores": "107 MB on disk",
}
"""The sizes of environments that commands for users install, as measured in a fresh clone."""

OLDEST_PYTHON = (3, 11)
NEWEST_SPARK = "4.3"  # as in locks/all.lock
NOT_INSTALLED = 69
"""The exit status when something cannot be installed: .ci/run knows it."""

# Spark has its Python processes import PySpark from an archive of sources, which each compiles
# anew: a fifth of the time of a test of Spark. Without it they find the package. But the suites
# --cluster and --spark import it as users do.
COMPILED_PYSPARK = (
    "import os, sys; sys.path[:] = [each for each in sys.path"
    " if 'NOTED_TIME_CLUSTER' in os.environ or not each.endswith('/pyspark.zip')]\n"
)
# names of another Python's or another Spark's settings begin so; they would override ours
FOREIGN = ("PYTHONHOME", "PYTHONPATH", "PYSPARK_", "SPARK_", "HADOOP_CONF", "YARN_")


def format_sizes() -> str:
    """Return the locks of .venv and their sizes, as `./run --help` shows them."""
    return "\n".join(f"  {COMMANDS[name]:<30} {SIZES[name]}" for name in LOCK_NAMES)


def require_python(version: tuple[int, ...]) -> None:
    """Stop with a remedy when this Python is too old."""
    if version < OLDEST_PYTHON:
        this = ".".join(map(str, version))
        fail(f"noted-time needs Python 3.11 or newer and this is {this}; try `python3.12 run`.")


def clean_environment(inherited_env: Mapping[str, str]) -> dict[str, str]:
    """Return the inherited environment with .venv in front and no other Python or Spark in it.

    An inherited JAVA_HOME stays: it is the first place to look for Java.
    """
    env = {name: value for name, value in inherited_env.items() if not name.startswith(FOREIGN)}
    env["PATH"] = os.pathsep.join([str(BIN), inherited_env.get("PATH", os.defpath)])
    return {
        **env,
        "VIRTUAL_ENV": str(VENV),
        "PYSPARK_PYTHON": str(PYTHON),
        "PYSPARK_DRIVER_PYTHON": str(PYTHON),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PIP_USER": "0",
    }


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Let one ./run at a time change environments (POSIX only)."""
    if os.name == "nt":
        yield
        return
    import fcntl

    with Path(__file__).open("rb") as script:
        try:
            fcntl.flock(script, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another ./run, which is preparing an environment.")
            fcntl.flock(script, fcntl.LOCK_EX)
        yield


def usual(env: dict[str, str], name: str = LOCK.stem) -> None:
    """Install into .venv what a lock names and this project, unless it has them.

    An environment of a larger lock is used as it is, and a smaller one grows.
    """
    stamp = VENV / STAMP
    installed_stamp = read(stamp)
    new_enough = ("-c", f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON})")
    sufficient_names = LOCK_NAMES[LOCK_NAMES.index(name) :]
    sufficient_stamps = [fingerprint_project(sufficient) for sufficient in sufficient_names]
    if installed_stamp in sufficient_stamps and runs(env, *new_enough):
        return
    refuse_link(VENV)
    elsewhere = installed_stamp and not installed_stamp.endswith(
        f" {ROOT}"
    )  # the scripts in it name a place
    if elsewhere or not (runs(env, *new_enough) and runs(env, "-m", "pip", "--version")):
        say(f"Making .venv with {sys.executable}.")
        make_venv(env, VENV, sys.executable)
    say(f"Installing locks/{name}.lock into .venv, once: {SIZES[name]}.")
    # imported modules are compiled then: Spark has many that the demo does not need
    options = () if name == LOCK.stem else ("--no-compile", "--no-deps")
    pip(env, VENV, *options, "--require-hashes", "-r", str(LOCKS / f"{name}.lock"))
    pip(env, VENV, "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    for packages in VENV.glob("[Ll]ib/**/site-packages"):
        (packages / "compiled-pyspark.pth").write_text(COMPILED_PYSPARK)
    # last: an interrupted install has no stamp and is done again
    stamp.write_text(fingerprint_project(name))


def fingerprint_project(name: str) -> str:
    """Name the content of a lock of .venv, and of this project's file."""
    return fingerprint(LOCKS / f"{name}.lock", ROOT / "pyproject.toml")


def beside(env: dict[str, str], name: str, lock: Path, python: str | Path) -> Path:
    """Return .venv-NAME with all packages of a lock, which is installed once."""
    home = ROOT / f".venv-{name}"
    stamp = home / STAMP
    if read(stamp) != fingerprint(lock):
        refuse_link(home)
        size = f": {SIZES[name]}" if name in SIZES else ""
        say(f"Installing {lock.relative_to(ROOT)} into {home.name}, once{size}.")
        make_venv(env, home, python)
        # imported modules are compiled then; all of Airflow would take a minute
        pip(env, home, "--no-compile", "--no-deps", "--require-hashes", "-r", str(lock))
        stamp.write_text(fingerprint(lock))
    return home


def find_programs(env: dict[str, str], name: str) -> Path:
    """Return the programs of a suite, which has its own environment if it has its own lock."""
    suite_lock = LOCKS / f"{name}.lock"
    if name in LOCK_NAMES or not suite_lock.exists():
        return VENV / BIN.name
    return beside(env, name, suite_lock, PYTHON) / BIN.name


def choose_python(env: dict[str, str], words: Iterable[str | Path]) -> list[str]:
    """Return the words of a command, with the Python of the chosen Spark in place of .venv's."""
    command = [str(word) for word in words]
    return [env["PYSPARK_PYTHON"] if word == str(PYTHON) else word for word in command]


def spark(env: dict[str, str], release: str) -> dict[str, str]:
    """Return the environment with another PySpark, which lies in front of all that .venv has."""
    home = beside(env, f"spark-{release}", LOCKS / f"spark-{release}.lock", PYTHON)
    python = str(python_of(home))
    (own_packages,) = home.glob("[Ll]ib/**/site-packages")
    usual = str(VENV / own_packages.relative_to(home))
    (own_packages / "usual.pth").write_text(f"import site; site.addsitedir({usual!r})\n")
    return {
        **env,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "NOTED_TIME_KAFKA": str(VENV / "kafka"),
    }


def chosen_spark(arguments: list[str]) -> str:
    """Remove `--spark` from the arguments and return its release, "" without one."""
    options = [argument.partition("=")[0] for argument in arguments]
    if "--spark" not in options:
        return ""
    place = options.index("--spark")
    _, _, release = arguments.pop(place).partition("=")
    if not release and place < len(arguments):
        release = arguments.pop(place)
    releases = [*sorted(lock.stem[6:] for lock in LOCKS.glob("spark-*.lock")), NEWEST_SPARK]
    if release not in releases:
        fail(f"--spark takes one of {', '.join(releases)}.", code=2)
    return release


def refuse_link(home: Path) -> None:
    """Stop before anything is changed through a link to an environment that is not this clone's."""
    if home.is_symlink() and not read(home / STAMP).endswith(f" {ROOT}"):
        fail(
            f"{home.name} is a link to {home.readlink()}, made for another clone: remove the link."
        )


def make_venv(env: dict[str, str], home: Path, python: str | Path) -> None:
    """Make an empty environment, in place of one that cannot be used."""
    # venv would empty the directory that a link names, and then refuse the link
    if call(env, python, "-m", "venv", "--clear", home.resolve()):
        fail("The virtual environment could not be made, see above.")


def pip(env: dict[str, str], home: Path, *arguments: str, remedy: str = "") -> None:
    """Install into an environment, with scratch files inside: /tmp may be too small for PySpark."""
    scratch = home / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    env = {**env, "TMPDIR": str(scratch)}
    words = ("-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off")
    lock = Path(arguments[-1]) if "-r" in arguments else None
    installation = Installation(home, scratch, lock)
    code, output = call_showing(installation, env, python_of(home), *words, *arguments)
    shutil.rmtree(scratch, ignore_errors=True)
    if code:
        say(output)
        remedy = remedy or "Then start again."
        fail(f"pip could not install it, see above. {remedy}", code=NOT_INSTALLED)


def call_showing(
    installation: Installation, env: Mapping[str, str], *command: str | Path
) -> tuple[int, str]:
    """Run pip, show how far it is, and return its exit code and all that it said."""
    words = [str(word) for word in command]
    output_lines = []
    with subprocess.Popen(
        words, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process, showing(installation.describe):
        for line in process.stdout or ():
            output_lines.append(line)
            installation.read(line)
    return process.returncode, "".join(output_lines)


def python_of(home: Path) -> Path:
    """Return the Python of an environment."""
    return home / BIN.name / "python"


def fingerprint(*files: Path) -> str:
    """Name the content of these files and the place of this clone."""
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    return f"{digest.hexdigest()} {ROOT}"


def runs(env: dict[str, str], *words: str) -> bool:
    """Tell whether .venv's Python is there and succeeds with these words."""
    return call(env, PYTHON, *words, output=subprocess.DEVNULL) == 0


def call(env: Mapping[str, str], *command: str | Path, output: int | None = None) -> int:
    """Run a program to its end and return its exit code, 127 when it cannot be started."""
    words = [str(word) for word in command]
    try:
        return subprocess.run(words, env=env, stdout=output, stderr=output, check=False).returncode
    except OSError as error:
        if output != subprocess.DEVNULL:
            say(f"{words[0]} cannot be started: {error.strerror}.")
        return 127


def read(path: Path) -> str:
    """Return the text of a file, empty if it does not exist."""
    return path.read_text() if path.exists() else ""


def say(sentence: str) -> None:
    """Tell the user something, apart from a command's own output."""
    print(sentence, file=sys.stderr, flush=True)


def check_options(arguments: Iterable[str], known_options: Collection[str]) -> None:
    """Fail if an argument is an option that is not known; without known ones, take all."""
    for option in (argument.partition("=")[0] for argument in arguments if known_options):
        if option.startswith("-") and option not in known_options:
            fail(f"there is no option {option}: use one of {', '.join(known_options)}.", code=2)


def fail(sentence: str, *, code: int = 1) -> NoReturn:
    """Stop with a sentence."""
    say(f"run: {sentence}")
    raise SystemExit(code)
