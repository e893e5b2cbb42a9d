"""The command line of the benchmarks."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import against, page
from benchmarks.figures import Figure, Run, as_json, lines
from tools.trials.descendants import end_with_this_process

BENCHMARKS = {
    "single": "single_notes",
    "postgres": "postgres_notes",
    "batches": "note_batches",
    "postgres-batches": "postgres_batches",
    "visible": "visible_marks",
    "readers": "waiting_readers",
    "aggregation": "aggregation",
    "heartbeat": "heartbeat",
    "windows": "time_windows",
    "imports": "imports",
    "spark": "spark_read",
}
AT_REQUEST = {
    "takeover": "takeover",
    "kafka": "kafka",
    "cluster": "cluster",
    "tables": "table_claims",
    "analyse": "analysed_topic",
}
"""Benchmarks that need another Spark or more than two cores, or that take ten minutes."""

ALL = BENCHMARKS | AT_REQUEST
BUILD = Path(__file__).parent.parent / "build"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Which: {', '.join(BENCHMARKS)}, which are the default; {', '.join(AT_REQUEST)}."
        ),
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Few repeats: a minute or two.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all samples to this file as well.")
    ] = None,
    for_page: Annotated[
        bool, typer.Option("--page", help="Write the table of docs/explain/speed.md from this run.")
    ] = False,
    commit: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="COMMIT",
            help=f"Measure the tree of that commit and this one in turn, {against.ROUNDS} times "
            "each, and show what changed by more than the noise.",
        ),
    ] = None,
) -> None:
    """Measure noted-time, each figure against a floor that is measured alongside."""
    chosen_names = names or list(BENCHMARKS)
    unknown = [name for name in chosen_names if name not in ALL]
    if unknown:
        wrong = f"no benchmark is called {', '.join(unknown)}"
        raise typer.BadParameter(f"{wrong}; choose of {', '.join(ALL)}")
    if for_page and (quick or names):
        raise typer.BadParameter("the page has all benchmarks, measured in full")
    end_with_this_process()
    if commit is not None:
        if json_file is not None or for_page:
            raise typer.BadParameter("--json and --page are of one tree, --against measures two")
        compare(chosen_names, commit, quick=quick)
        return
    figures = measure(chosen_names, quick=quick)
    typer.echo("\n".join(lines(figures)))
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(figures), indent=2) + "\n")
    if for_page:
        page.write(as_json(figures))


def compare(names: list[str], commit: str, *, quick: bool) -> None:
    """Print the changes since a commit, with progress on standard error."""
    BUILD.mkdir(exist_ok=True)
    options = ["--quick"] if quick else []
    try:
        say = partial(typer.echo, err=True)
        changes = against.compare(names, commit, BUILD, say, options)
    except against.NotMeasured as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo("\n".join(against.lines(changes, commit)))


def measure(names: list[str], *, quick: bool) -> list[Figure]:
    """Run the benchmarks in order, with progress on standard error.

    Files are in ``build/``, which is on a real disk, unlike ``/tmp``.
    """
    BUILD.mkdir(exist_ok=True)
    figures: list[Figure] = []
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as directory, console.status("") as status:
        for place, name in enumerate(names, start=1):

            def say(text: str, place: int = place) -> None:
                status.update(f"{place} of {len(names)}: {text}")
                if not console.is_terminal:
                    console.print(f"{place} of {len(names)}: {text}")

            module: Any = import_module(f"benchmarks.{ALL[name]}")
            figures += module.measure(Run(quick, Path(directory), say))
    return figures


if __name__ == "__main__":
    app()
