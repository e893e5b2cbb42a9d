"""All streams of this controller, by name and by id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.aggregation.stream import StreamState
from noted_time.errors import UnknownStream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.store.port import Batch, Store


@dataclass(slots=True)
class World:
    """The streams in memory; what is durable of them is in the store."""

    _by_name: dict[str, StreamState] = field(default_factory=dict)
    _by_id: dict[str, StreamState] = field(default_factory=dict)

    @classmethod
    def load(cls, store: Store) -> World:
        """Return the streams as the store knows them."""
        world = cls()
        for record in store.streams():
            world.add(StreamState.load(record, store))
        return world

    def __iter__(self) -> Iterator[StreamState]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def names(self) -> list[str]:
        """Return the names of all streams in order."""
        return sorted(self._by_name)

    def find(self, name: str) -> StreamState | None:
        """Return the stream of that name, `None` where there is none."""
        return self._by_name.get(name)

    def stream(self, name: str) -> StreamState:
        """Return the stream of that name; raises `UnknownStream`."""
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownStream(name) from None

    def add(self, stream: StreamState) -> None:
        """Take a stream in."""
        self._by_name[stream.record.name] = stream
        self._by_id[stream.id] = stream

    def remove(self, stream: StreamState) -> None:
        """Let a stream go."""
        del self._by_name[stream.record.name]
        del self._by_id[stream.id]

    def publish(self, batch: Batch) -> None:
        """Show what a commit made durable: new marks appear, forgotten ones go."""
        for stream_id, writer in batch.forgotten_members:
            stream = self._by_id.get(stream_id)
            if stream is not None:
                stream.census.forget(writer)
        for stream_id, record in batch.members:
            stream = self._by_id.get(stream_id)
            if stream is not None:
                stream.census.take(record)
        for appended in batch.marks:
            stream = self._by_id.get(appended.stream_id)
            if stream is not None:
                stream.publish(appended)
        for stream_id, key, through in batch.forgotten:
            stream = self._by_id.get(stream_id)
            if stream is not None:
                stream.histories[key].forget_through(through)
