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
DOWNLOADS = {"stores": "107 MB on disk", "kafka": "62 MB to download"}
"""The sizes of environments that commands for users install."""

OLDEST_PYTHON = (3, 11)
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


def usual(env: dict[str, str]) -> None:
    """Install into .venv what locks/all.lock names and this project, unless that is done."""
    stamp = VENV / STAMP
    wanted_stamp = fingerprint(LOCK, ROOT / "pyproject.toml")
    installed_stamp = read(stamp)
    new_enough = ("-c", f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON})")
    if installed_stamp == wanted_stamp and runs(env, *new_enough):
        return
    refuse_link(VENV)
    elsewhere = installed_stamp and not installed_stamp.endswith(
        f" {ROOT}"
    )  # the scripts in it name a place
    if elsewhere or not (runs(env, *new_enough) and runs(env, "-m", "pip", "--version")):
        say(f"Making .venv with {sys.executable}.")
        make_venv(env, VENV, sys.executable)
    say(
        "Installing into .venv, once: a download of 456 MB, 1.7 GB on disk, "
        "and twice that meanwhile. It takes about three minutes."
    )
    pip(env, VENV, "--require-hashes", "-r", str(LOCK))
    pip(env, VENV, "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    for packages in VENV.glob("[Ll]ib/**/site-packages"):
        (packages / "compiled-pyspark.pth").write_text(COMPILED_PYSPARK)
    stamp.write_text(wanted_stamp)  # last: an interrupted install has no stamp and is done again


def beside(env: dict[str, str], name: str, lock: Path, python: str | Path) -> Path:
    """Return .venv-NAME with all packages of a lock, which is installed once."""
    home = ROOT / f".venv-{name}"
    stamp = home / STAMP
    if read(stamp) != fingerprint(lock):
        refuse_link(home)
        size = f": {DOWNLOADS[name]}" if name in DOWNLOADS else ""
        say(f"Installing {lock.relative_to(ROOT)} into {home.name}, once{size}.")
        make_venv(env, home, python)
        # imported modules are compiled then; all of Airflow would take a minute
        pip(env, home, "--no-compile", "--no-deps", "--require-hashes", "-r", str(lock))
        stamp.write_text(fingerprint(lock))
    return home


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
    code, output = in_one_line(env, python_of(home), *words, *arguments)
    shutil.rmtree(scratch, ignore_errors=True)
    if code:
        say(output)
        remedy = remedy or "Then start again."
        fail(f"pip could not install it, see above. {remedy}", code=NOT_INSTALLED)


def in_one_line(env: Mapping[str, str], *command: str | Path) -> tuple[int, str]:
    """Run a program, and return its exit code and all that it said.

    A terminal shows the last line of it, over the one before.
    """
    words, output_lines = [str(word) for word in command], []
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else 0
    with subprocess.Popen(
        words, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        for line in process.stdout or ():
            output_lines.append(line)
            if width:
                sys.stderr.write(f"\r\x1b[K{line.strip()[: width - 1]}")
                sys.stderr.flush()
    if width:
        sys.stderr.write("\r\x1b[K")
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
