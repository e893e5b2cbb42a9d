from tests.cli.conftest import run, stream

__all__ = ["run", "stream"]
