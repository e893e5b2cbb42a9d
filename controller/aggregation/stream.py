"""One stream in memory: its members, its marks, its readers, and when its next mark may come."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controller.store.port import AppendedMark, ReaderRecord, StreamSummary
from noted_time import (
    Accepted,
    Aggregator,
    MarkHistory,
    ReaderGroup,
    Refused,
    ScaleEvent,
    StreamSettings,
    Succession,
)
from noted_time.cut import MAX_INT64
from noted_time.errors import UnknownKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from controller.aggregation.draft import Draft, Moment
    from controller.store.port import Store, StreamRecord
    from noted_time import Mark, MemberRecord, TimeWindow
    from noted_time.note import NoteLike

FORGOTTEN_AT_ONCE = 5000
"""So many writers of a stream go at a time, which takes a commit some 50 ms."""


class StreamState:
    """The running state of one stream.

    The aggregator is ahead of the histories while a commit is under way: marks are made with the
    notes they follow from and shown when both are durable. `clock_ahead` is how far the service
    clock of the stream's bucket is ahead of this process's own, in ms, and `latest_ms` the latest
    moment on it that was stored with the stream. `left_out` counts how often a writer was left out
    since the stream was read.
    """

    def __init__(self, record: StreamRecord) -> None:
        """Begin a stream without a past."""
        self.record = record
        self.aggregator = Aggregator(record.settings)
        self.histories = {key: MarkHistory() for key in record.settings.keys}
        self.groups: dict[str, ReaderGroup] = {}
        self.scale_events: list[ScaleEvent] = []
        self.left_out = 0
        self.clock_ahead = 0
        self.latest_ms = 0
        self._next_mark_at: dict[str, int] = {}

    @classmethod
    def load(cls, record: StreamRecord, store: Store) -> StreamState:
        """Return the stream as the store knows it."""
        stream = cls(record)
        succession = stream._scaled(store.scales(record.id))
        last: dict[str, tuple[Mark, int]] = {}
        for key, history in stream.histories.items():
            for appended in store.marks(record.id, key):
                history.append(appended.mark)
                last[key] = (appended.mark, appended.appended_at)
        stream.aggregator = Aggregator(record.settings, succession, last, record.declared_at)
        stream.latest_ms = max((at for _, at in last.values()), default=0)
        stream.aggregator.restore(stream._dating(store.members(record.id)))
        for reader in store.readers(record.id):
            group = stream.groups.setdefault(reader.group, ReaderGroup())
            group.report(reader.reader, reader.position)
            if not reader.online:
                group.offline(reader.reader, {})
        return stream

    def _dating(self, members: Iterable[MemberRecord]) -> Iterator[MemberRecord]:
        """Yield the members, and remember the latest moment stored with them."""
        for record in members:
            self.latest_ms = max(self.latest_ms, record.noted_at, record.since)
            yield record

    def _scaled(self, events: Iterable[ScaleEvent]) -> Succession:
        succession = Succession()
        self.scale_events = list(events)
        for event in self.scale_events:
            succession.scale(event, known=event.sealed.keys())
        return succession

    def summary(self) -> StreamSummary:
        """Return what lists show of the stream."""
        last = {key: history.last for key, history in self.histories.items() if history.last}
        return StreamSummary(self.record, last, self.scale_events)

    @property
    def id(self) -> str:
        """The creation id: a stream made again under the same name has a new one."""
        return self.record.id

    @property
    def settings(self) -> StreamSettings:
        """The settings in force."""
        return self.record.settings

    def service_ms(self, moment: Moment) -> int:
        """Return the service clock of the stream's bucket."""
        return moment.service + self.clock_ahead

    def is_silence_over(self, moment: Moment) -> bool:
        """Whether a holder is to be left out."""
        due = self.aggregator.next_timeout()
        return due is not None and due <= self.service_ms(moment)

    def history(self, key: str | None) -> MarkHistory:
        """Return the durable marks of `key`; raises `UnknownKey`."""
        name = self.settings.key_or_default(key)
        try:
            return self.histories[name]
        except KeyError:
            raise UnknownKey(name, self.settings.keys) from None

    def window(self, position: Mapping[int, int], key: str | None) -> TimeWindow:
        """Return the time window of a reader's position; raises `UnknownKey`."""
        return self.history(key).window(self.aggregator.succession.normalise(position))

    def take_notes(
        self, notes: Sequence[NoteLike], draft: Draft, most_writers: int
    ) -> list[Accepted | Refused]:
        """Feed the notes in order; where the stream marks every advance, so does each note.

        A new writer beyond `most_writers` is refused.
        """
        crowded = len(self.aggregator) + len(notes) > most_writers
        note, now = self.aggregator.note, self.service_ms(draft.moment)
        largest = self._largest_time(draft.moment)
        every_advance = self.settings.mark_interval_ms == 0
        touched, results = draft.touched(self), []
        result: Accepted | Refused
        for each in notes:
            if crowded and self._has_no_room_for(each.writer, most_writers):
                result = Refused("too_many_writers", most_writers)
            else:
                result = note(each, now, largest)
            if type(result) is Accepted:
                touched.add(each.writer)
                if every_advance and self._advance_all(draft):
                    mark = self.aggregator.last_mark(self.aggregator.key_of(each))
                    result = Accepted(mark.lower if mark else None)
            results.append(result)
        return results

    def leave_out_the_silent(self, draft: Draft) -> tuple[str, ...]:
        """Leave out the holders whose writer timeout is over; returns their names."""
        names = self.aggregator.expire(self.service_ms(draft.moment))
        if names:
            self.left_out += len(names)
            draft.touched(self).update(names)
        return names

    def forget_departed(self, draft: Draft) -> tuple[str, ...]:
        """Forget the writers that left longer ago than the stream remembers them."""
        names = self.aggregator.forget_departed(self.service_ms(draft.moment), FORGOTTEN_AT_ONCE)
        if names:
            draft.forget(self, names)
        return names

    def advance_due(self, draft: Draft) -> int | None:
        """Mark every key whose time may go on and whose mark interval is over.

        Returns in how many ms the next key is due, `None` where none waits for its interval.
        """
        moment = draft.moment
        waits: list[int] = []
        for key in self.settings.keys:
            if self.aggregator.may_advance(key):
                wait = self._due(key, moment) - moment.steady
                if wait <= 0:
                    self._advance(key, draft)
                else:
                    waits.append(wait)
        return min(waits, default=None)

    def publish(self, appended: AppendedMark) -> None:
        """Show a mark that is durable now."""
        self.histories[appended.key].append(appended.mark)

    def reconfigure(self, settings: StreamSettings, draft: Draft) -> None:
        """Take changed settings; raises `Rejected` where a key would be taken away."""
        now = self.service_ms(draft.moment)
        self.aggregator.reconfigure(settings, now)
        added = {key: now for key in settings.keys if key not in self.histories}
        declared_at = {**self.record.declared_at, **added}
        self.record = replace(self.record, settings=settings, declared_at=declared_at)
        self.histories.update((key, MarkHistory()) for key in added)
        self._next_mark_at.clear()
        # who was excluded may be a member again, and holds time from this moment on
        draft.touched(self).update(self.aggregator.writers())

    def scale(self, event: ScaleEvent, draft: Draft) -> None:
        """Take a scale event; a replay changes nothing, nor does one that says nothing.

        Raises `InvalidScale`.
        """
        if event in self.scale_events or not (event.sealed or event.created):
            return
        self.aggregator.scale(event)
        draft.batch.scales.append((self.id, len(self.scale_events), event))
        self.scale_events.append(event)
        draft.touched(self).update(self.aggregator.writers())

    def report(self, group: str, reader: str, position: Mapping[int, int], draft: Draft) -> None:
        """Take in how far a reader has read in its segments."""
        state = self.groups.setdefault(group, ReaderGroup())
        owners = {state.offsets[s][1] for s in position if s in state.offsets}
        state.report(reader, position)
        self._draft_readers(group, owners | {reader}, draft)

    def offline(self, group: str, reader: str, position: Mapping[int, int], draft: Draft) -> None:
        """Put a reader's segments back to `position`; the reader no longer counts."""
        self.groups[group].offline(reader, position)
        self._draft_readers(group, {reader}, draft)

    def _draft_readers(self, group: str, readers: Iterable[str], draft: Draft) -> None:
        state = self.groups[group]
        draft.report(
            [
                ReaderRecord(self.id, group, name, name in state.readers, state.segments_of(name))
                for name in sorted(readers)
            ]
        )

    def forget_old_marks(self, draft: Draft) -> None:
        """Drop the marks that are older than the stream keeps them.

        Never the last, nor one that a reader group with a reader online has still to pass.
        """
        horizon = draft.moment.wall - self.settings.mark_retention_ms
        for key, history in self.histories.items():
            through = history.written_before(horizon)
            if through >= history.first_seq:
                self._forget_before(key, min(through + 1, self._needed_from(key)), draft)

    def truncate(self, cut: Mapping[int, int], draft: Draft) -> None:
        """Drop the marks whose cut the given cut reaches, but for the last of them.

        That one is what a reader exactly at the cut takes its lower from; nobody can read before.
        """
        for key in self.histories:
            reached = self.window(cut, key).lower_seq
            if reached is not None:
                self._forget_before(key, reached, draft)

    def _needed_from(self, key: str) -> int:
        """Return the seq of the first mark that a reader group online needs, or of the last."""
        history = self.histories[key]
        online = (group for group in self.groups.values() if group.readers)
        windows = (self.window(group.position, key) for group in online)
        needed = (window.lower_seq or history.first_seq for window in windows)
        return min(needed, default=history.last_seq)

    def _forget_before(self, key: str, seq: int, draft: Draft) -> None:
        history = self.histories[key]
        through = min(seq, history.last_seq) - 1
        if through >= history.first_seq:
            draft.batch.forgotten.append((self.id, key, through))

    def _has_no_room_for(self, writer: str, most_writers: int) -> bool:
        return len(self.aggregator) >= most_writers and writer not in self.aggregator

    def _largest_time(self, moment: Moment) -> int | None:
        """Return the largest time that may be noted now, `None` where any may."""
        ahead = self.settings.max_time_ahead_ms
        return None if ahead is None else min(moment.wall + ahead, MAX_INT64)

    def _due(self, key: str, moment: Moment) -> int:
        """Return when (steady clock) the interval since the last mark is over.

        The steady clock begins anew with each process, so for a mark of the one before the wall
        clock is asked; it may have stepped back, and then the wait is one interval.
        """
        due = self._next_mark_at.get(key)
        if due is None:
            last, interval = self.histories[key].last, self.settings.mark_interval_ms
            left = 0 if last is None else last.written_at + interval - moment.wall
            due = self._next_mark_at[key] = moment.steady + max(0, min(left, interval))
        return due

    def _advance_all(self, draft: Draft) -> bool:
        marks = [self._advance(key, draft) for key in self.settings.keys]
        return any(mark is not None for mark in marks)

    def _advance(self, key: str, draft: Draft) -> Mark | None:
        moment = draft.moment
        now = self.service_ms(moment)
        mark = self.aggregator.advance(key, now=now, written_at=moment.wall)
        if mark is not None:
            draft.batch.marks.append(AppendedMark(self.id, key, mark, now))
            self._next_mark_at[key] = moment.steady + self.settings.mark_interval_ms
        return mark
