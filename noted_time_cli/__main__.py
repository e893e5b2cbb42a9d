"""The command `noted-time`. The clients install it without its dependencies."""

from __future__ import annotations

import sys
from pathlib import Path

OWN_PACKAGES = {
    "controller",
    "noted_time",
    "noted_time_cli",
    "noted_time_extensions",
    "reader_client",
    "spark_integration",
    "writer_client",
}
CLIENT_LIBRARIES = {"typer", "rich"}


def main() -> None:
    """Run the command line, or exit with 2 and print how to install a missing dependency."""
    sys.path.sort(key=_has_other_copy)  # import the copies of our packages next to this one
    try:
        from noted_time.installation import name_program
        from noted_time_cli.app import app

        app(prog_name=name_program())
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in OWN_PACKAGES:
            raise
        from noted_time.installation import install_command

        extra = "controller"
        needs = "the extra controller"
        if missing in CLIENT_LIBRARIES:
            extra = "cli"
            needs = "the extra cli, or controller to serve"
        message = f"the command line needs {needs} ({error}): {install_command(extra)}"
        sys.stderr.write(f"noted-time: {message}\n")
        raise SystemExit(2) from error


def _has_other_copy(folder: str) -> bool:
    is_ours = Path(folder).resolve() == Path(__file__).resolve().parents[1]
    return not is_ours and any(Path(folder, name).is_dir() for name in OWN_PACKAGES)


if __name__ == "__main__":
    main()
