"""The writers of a stream whose partitions several observers share: one for each partition.

A row of a new partition must not lie below the marks of the others. So each process that sees a
partition has time wait for its writer before it notes anything of what that look saw, whichever
process is to observe it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from noted_time.client import Question, ask_in_turn, note_to_wire, stream_path
from noted_time.client.transport import Transport
from noted_time.values import (
    MAX_NOTES_PER_REQUEST,
    Note,
    Refused,
    checked_name,
)
from writer_client.client import WriterClient
from writer_client.sending.answers import Answered, answer_of

BEFORE_ALL = 1
"""A number below those of all requests that a writer makes itself."""


def joining(writer: str, domain: str, timeout_ms: int, log: str | None = None) -> Note:
    """Return the note by which a writer of a log joins, unless it has noted before.

    Its number is below that of any note of the writer's own, so it is refused as superseded then.
    It has no session, so it takes no name over.
    """
    return Note(writer, sequence=BEFORE_ALL, domains=(domain,), timeout_ms=timeout_ms, log=log)


class PartitionWriters:
    """The writers `PREFIX-PARTITION` of a stream, each of which vouches for one domain of it.

    Time waits `timeout_ms` for each of them. Raises `InvalidName`, and `Rejected` for a URL.
    """

    def __init__(  # noqa: PLR0913 - what the writers have in common
        self,
        url: str,
        stream: str,
        prefix: str,
        *,
        domain: str,
        timeout_ms: int,
        token: str | None = None,
    ) -> None:
        self.stream = checked_name("stream", stream)
        self.prefix = checked_name("writer", prefix)
        self.timeout_ms = timeout_ms
        self._domain = domain
        self._url, self._token = url, token
        self._transport = Transport(url, token=token)
        self._awaited: set[int] = set()

    def name(self, partition: int) -> str:
        """Return the name of a partition's writer."""
        return f"{self.prefix}-{partition}"

    def client(self, partition: int) -> WriterClient:
        """Return a new client of a partition's writer, which takes its name over."""
        return WriterClient(
            self._url,
            self.stream,
            self.name(partition),
            token=self._token,
            domains=[self._domain],
            timeout_ms=self.timeout_ms,
        )

    def wait_for(self, partitions: Iterable[int], log: str | None = None) -> None:
        """Have time wait for the writers that have not noted yet; each is asked for once.

        Raises `Rejected` if they cannot join, as those of another `log`, `Unreachable` if that is
        not known.
        """
        new = sorted(set(partitions) - self._awaited)
        for first in range(0, len(new), MAX_NOTES_PER_REQUEST):
            some = new[first : first + MAX_NOTES_PER_REQUEST]
            self._join([self.name(partition) for partition in some], log)
            self._awaited.update(some)

    def command(self, partitions: Iterable[int]) -> str | None:
        """Return the command that has the stream expect all of the writers, `None` if it does.

        Raises `UnknownStream`, `NotAllowed` without the right to read, or `Unreachable`.
        """
        settings = self._transport.ask(Question("GET", stream_path(self.stream)))
        expected: Sequence[str] = settings["expected_writers"]
        names = [self.name(partition) for partition in sorted(partitions)]
        if set(names) <= set(expected):
            return None
        flags = " ".join(f"--expected-writer {each}" for each in dict.fromkeys([*expected, *names]))
        return f"noted-time stream create {self.stream} {flags}"

    def close(self) -> None:
        """Give the connections back; the clients have their own."""
        self._transport.close()

    def _join(self, writers: Sequence[str], log: str | None) -> None:
        notes = [joining(each, self._domain, self.timeout_ms, log) for each in writers]
        body = {"notes": [note_to_wire(note) for note in notes]}
        question = Question("POST", stream_path(self.stream, "notes"), body=body)
        answer: Answered = self._transport.run(
            ask_in_turn(
                self._transport.controllers,
                lambda: question,
                lambda reply: answer_of(reply, len(notes), self.stream),
            )
        )
        for writer, result in zip(writers, answer.results, strict=True):
            if isinstance(result, Refused) and result.status != "superseded":
                raise result.error(writer)
