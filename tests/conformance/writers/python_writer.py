"""The Python client as a writer program of the conformance runner."""

import os

from noted_time import NotedTimeError, Rejected, Unreachable
from noted_time.client import Backoff
from noted_time.values import Fenced, InvalidNote
from tests.conformance.writers.http_writer import run
from writer_client import Flushed, Pace, WriterClient

GIVE_UP_S = float(os.environ.get("NOTED_TIME_GIVE_UP_S", "30"))
PACE = Pace(backoff=Backoff(first_s=0.1, cap_s=5.0))


class Program:
    """One writer, whose log is a counter in each of two segments."""

    def __init__(self) -> None:
        self._ends = [0, 0]
        self._client: WriterClient | None = None

    def answer(self, command: str, value: str) -> dict[str, object]:
        if command in ("write", "ends"):
            before = self._ends if command == "write" else [0, 0]
            self._ends = [a + int(b) for a, b in zip(before, value.split(), strict=True)]
            return {"answer": "ok", "position": dict(enumerate(self._ends))}
        try:
            promise = self._perform(command, value)
        except Fenced:
            return {"answer": "fenced"}
        except Unreachable:
            return {"answer": "gave up"}
        except NotedTimeError as error:
            return {"answer": "refused", "code": code_of(error)}
        if promise is not None and promise.excluded is not None:
            return {"answer": "excluded"}
        lower = promise.lower if promise is not None and command == "note" else None
        is_late = lower is not None and int(value) <= lower
        return {"answer": "accepted", "late": True} if is_late else {"answer": "accepted"}

    def _perform(self, command: str, value: str) -> Flushed | None:
        if self._client is None or command == "join":
            self._end_session()
            url, stream, writer = (
                os.environ[f"NOTED_TIME_{name}"] for name in ("URL", "STREAM", "WRITER")
            )
            self._client = WriterClient(stream, writer, controller=url, pace=PACE)
            self._client.join()
        client = self._client
        position = dict(enumerate(self._ends))
        if command == "finish":
            return client.finish(position, timeout=GIVE_UP_S)
        if command == "note":
            client.note_time(int(value), position)
        elif command == "heartbeat":
            client.join()
        elif command in ("idle", "leave"):
            client.idle(position)
        promise = client.flush(GIVE_UP_S)
        if command in ("leave", "close"):
            self._end_session()
        return promise

    def _end_session(self) -> None:
        if self._client is not None:
            self._client.close(GIVE_UP_S)
            self._client = None


def code_of(error: NotedTimeError) -> str:
    """Return the code of a refusal: its status, or the title of its problem."""
    if isinstance(error, InvalidNote):
        return error.status
    if type(error).kind is not Rejected.kind:
        return type(error).kind.code
    words = str(error).partition(":")[0].split()
    return "_".join(words[1:]).lower()


if __name__ == "__main__":
    run(Program().answer)
