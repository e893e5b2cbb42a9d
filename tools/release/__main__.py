"""`./run release`: build all that is published, check it, and try it with each Python."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from noted_time import NotedTimeError, Rejected
from tools.release import building, maven, pythons, trials

DIST = building.ROOT / "dist"
SCRATCH = building.ROOT / ".venv-release"  # where no tool looks for our packages
JAVA = "java"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def release(
    *,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Go on without a Python, such as 3.12, or without java, which builds the "
            "interceptor's jars; may be repeated.",
        ),
    ] = None,
    untried: Annotated[
        bool,
        typer.Option("--untried", help="Only build and check; changed files may be uncommitted."),
    ] = False,
) -> None:
    """Build sdist, wheel and jars into dist, twice to equal bytes; check them and try each extra.

    Each is installed for each Python from 3.11 on that is here, of pyenv or the PATH, into an
    environment that has nothing else: half an hour, most of it for PySpark, which pip downloads
    once.
    """
    try:
        tools = Path(os.environ["NOTED_TIME_PACKAGES"])
        left_out = frozenset(without or ())
        chosen_pythons = {} if untried else choose_pythons(pythons.find_pythons(), left_out)
        require_commit(building.changes(), may_differ=untried)
        built_files = _build(tools, is_with_java=JAVA not in left_out)
        (wheel,) = DIST.glob("noted_time-*.whl")
        failed_trials = _try(tools, chosen_pythons, wheel)
        shutil.rmtree(SCRATCH)
        _summary(built_files, chosen_pythons, left_out, failed_trials)
    except NotedTimeError as error:
        sys.stderr.write(f"run release: {error}\n")
        raise typer.Exit(1) from error
    if failed_trials:
        raise typer.Exit(1)


def choose_pythons(found_pythons: Mapping[str, Path], left_out: frozenset[str]) -> dict[str, Path]:
    """Return the Pythons to try; raises `Rejected` if one is supported, not here, and not named."""
    supported_releases = pythons.list_supported()
    unknown = left_out - {*supported_releases, *found_pythons, JAVA}
    if unknown:
        known_names = ", ".join(dict.fromkeys([*supported_releases, *found_pythons]))
        raise Rejected(f"--without {min(unknown)}: name java, or one of {known_names}")
    missing = pythons.find_untried(supported_releases, found_pythons, left_out)
    if missing:
        options = " ".join(f"--without {name}" for name in missing)
        raise Rejected(
            f"Python {', '.join(missing)} is supported and not here, so nothing would try it: "
            f"install it, or go on with {options}"
        )
    return {
        release: program for release, program in found_pythons.items() if release not in left_out
    }


def require_commit(changed_lines: Sequence[str], *, may_differ: bool) -> None:
    """Print the files that differ from the commit; raises `Rejected` unless they may."""
    if not changed_lines:
        return
    says = (
        f"{len(changed_lines)} files differ from the last commit, "
        f"such as {changed_lines[0].split()[-1]}"
    )
    if not may_differ:
        raise Rejected(f"{says}: commit them, as a release is of a commit; or try --untried")
    _say(f"   {says}")


def _build(tools: Path, *, is_with_java: bool) -> list[Path]:
    """Build and check everything, and move it into dist; returns the files."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    for project in building.projects():
        _say(f"== build {building.metadata(project)['name']}, twice")
        made_files = building.distributions(project, tools, SCRATCH / project.name)
        building.check(tools, made_files)
        for file in made_files:
            file.rename(DIST / file.name)
    if is_with_java:
        _say("== build the interceptor's jars, twice")
        maven.repository(SCRATCH).rename(DIST / "maven")
    return sorted(file for file in DIST.rglob("*") if file.is_file())


def _try(tools: Path, chosen_pythons: Mapping[str, Path], wheel: Path) -> list[str]:
    """Try each extra with each Python; returns the failures, which are printed."""
    failed_trials = []
    extras = ["", *building.metadata()["optional-dependencies"]]
    for release, program in chosen_pythons.items():
        _say(f"== try {wheel.name} with Python {release}: {program}")
        for extra in extras:
            begun_s = time.monotonic()
            try:
                trials.try_wheel(tools, program, wheel, [extra] if extra else [], SCRATCH)
                outcome = f"ok, {time.monotonic() - begun_s:.0f} s"
            except Rejected as error:
                failed_trials.append(f"{extra or 'no extra'} with Python {release}")
                outcome = f"FAILED: {error}"
            _say(f"   {extra or 'no extra':<10} {outcome}")
    return failed_trials


def _summary(
    built_files: Sequence[Path],
    chosen_pythons: Mapping[str, Path],
    left_out: frozenset[str],
    failed_trials: Sequence[str],
) -> None:
    """Print the built files, the untried Pythons, and the next step."""
    _say(f"== built in {DIST.name} from commit {building.commit('%H')}")
    for file in built_files:
        if not file.name.endswith(tuple(f".{checksum}" for checksum in maven.CHECKSUMS)):
            name = file.relative_to(DIST)
            _say(f"   {name}: {file.stat().st_size:,} bytes, sha256 {building.digest(file)}")
    not_tried = pythons.find_untried(pythons.list_supported(), chosen_pythons, ())
    if not_tried:
        _say(f"== not tried: Python {', '.join(not_tried)}")
    if JAVA in left_out:
        _say("== not built: the interceptor's jars")
    else:
        _say(f"== Maven Central demands more of java/pom.xml: {', '.join(maven.missing())}")
    if failed_trials:
        _say(f"== release: failed: {', '.join(failed_trials)}")
    else:
        _say("== release: what remains is a person's: docs/explain/releasing.md")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    app(prog_name="./run release")
