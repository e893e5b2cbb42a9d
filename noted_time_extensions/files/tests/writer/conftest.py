from tests.writer_client.conftest import stream

__all__ = ["stream"]
