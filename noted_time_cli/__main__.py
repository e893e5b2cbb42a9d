"""The command `noted-time`, and `python -m noted_time_cli`.

It is installed with the clients, which do not need the command line's dependencies; if these are
missing it says what to install.
"""

from __future__ import annotations

import sys
from pathlib import Path

OWN_PACKAGES = {
    "controller",
    "noted_time",
    "noted_time_cli",
    "reader_client",
    "spark_integration",
    "writer_client",
}
CLIENT_LIBRARIES = {"typer", "rich"}
"""What commands that call a controller need; those that run one need more."""


def main() -> None:
    """Run the command line, or end with status 2 and what to install."""
    sys.path.sort(key=_is_of_others)  # so that what is imported lies beside this package
    try:
        from noted_time_cli.app import app

        app(prog_name="noted-time")
    except ImportError as error:
        missing = _find_root_package(error)
        if missing in OWN_PACKAGES:
            raise
        from noted_time.installation import install_command

        extra = "cli" if missing in CLIENT_LIBRARIES else "controller"
        needs = f"the extra {extra}" + (", or controller to serve" if extra == "cli" else "")
        says = f"the command line needs {needs} ({error}): {install_command(extra)}"
        sys.stderr.write(f"noted-time: {says}\n")
        raise SystemExit(2) from error


def _is_of_others(entry: str) -> bool:
    """Return whether a directory of the path has packages with our names, and is not ours."""
    is_ours = Path(entry).resolve() == Path(__file__).resolve().parents[1]
    return not is_ours and any(Path(entry, name).is_dir() for name in OWN_PACKAGES)


def _find_root_package(error: ImportError) -> str:
    """Return the top-level package that could not be imported.

    >>> _find_root_package(ImportError(name="rich.table")), _find_root_package(ImportError())
    ('rich', '')
    """
    return (error.name or "").partition(".")[0]


if __name__ == "__main__":
    main()
