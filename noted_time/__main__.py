"""The command `noted-time`, and `python -m noted_time`.

It is installed with the clients, which do not need the command line's dependencies; if these are
missing it says what to install. The commands are those of the controller, which calls it over HTTP,
`observe` of the writers' client, and `relay` of the readers': no package knows another, so they are
put together here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

OURS = {"controller", "migrations", "noted_time", "reader_client", "writer_client"}
CALLING = {"typer", "rich"}
"""What commands that call a controller need; those that run one need more."""


def main() -> None:
    """Run the command line, or end with status 2 and what to install."""
    try:
        for package in ("controller", "reader_client", "writer_client"):
            _import_beside(package)
        commands = import_module("controller.cli.app").app
        observe = import_module("writer_client.observe_command").app
        commands.add_typer(observe, rich_help_panel="Write to a stream")
        relay = import_module("reader_client.relay_command").app
        commands.add_typer(relay, rich_help_panel="Read a stream")
        commands(prog_name="noted-time")
    except ImportError as error:
        missing = _root(error)
        if missing in OURS:
            raise
        needs = f"the command line needs more ({error})"
        if missing in CALLING:
            says = f'{needs}: pip install "noted-time[cli]", or "noted-time[controller]" to serve'
        else:
            says = f'{needs}: pip install "noted-time[controller]"'
        sys.stderr.write(f"noted-time: {says}\n")
        raise SystemExit(2) from error


def _import_beside(package: str) -> None:
    """Import the package beside this one, even if the path has another of that name first."""
    spec = PathFinder.find_spec(package, [str(Path(__file__).parents[1])])
    if package not in sys.modules and spec is not None and spec.loader is not None:
        sys.modules[package] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[package])


def _root(error: ImportError) -> str:
    """Return the top-level package that could not be imported.

    >>> _root(ImportError(name="rich.table")), _root(ImportError())
    ('rich', '')
    """
    return (error.name or "").partition(".")[0]


if __name__ == "__main__":
    main()
