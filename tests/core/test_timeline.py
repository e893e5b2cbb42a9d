"""Which writers each mark counts, lacks or does not know yet, by a look at all of them."""

from hypothesis import event, given

from noted_time.values import Mark, StreamSettings
from tests.core.model import NEVER, Writer
from tests.core.test_vouching import count_vouching
from tests.core.twins import DOMAINS, Step, Twins, starts, steps
from tests.support.streams import restart, seal


class Timeline(Twins):
    """Twins that track each writer's vouched time by domain, and the members at the last mark."""

    def __init__(self, settings: StreamSettings) -> None:
        super().__init__(settings)
        self.vouched: dict[tuple[str, str], int] = {}
        self.members: dict[str, set[str]] = {}
        self.left: dict[str, set[str]] = {domain: set() for domain in DOMAINS}
        self.finished: set[str] = set()
        self.removed: set[str] = set()
        self.said: list[tuple[str, int, int, set[str]]] = []

    def take(self, step: Step) -> None:
        super().take(step)
        for name, writer in self.model.writers.items():
            self.finished |= {name} if writer.state == "finished" else set()
            self.removed |= {name} if writer.excluded == "removed" else set()
            for domain in DOMAINS:
                self.left[domain] |= set() if writer.is_of(domain) else {name}
            for domain in self.model.marks:
                vouched_time = self.vouched.get((name, domain), NEVER)
                time = writer.time(domain)
                limit = min(vouched_time, self.model.lower(domain))  # its times do not count
                is_removed = writer.excluded == "removed"
                self.vouched[name, domain] = limit if is_removed else max(vouched_time, time)
        for domain in DOMAINS:
            self.advance(domain)

    def advance(self, domain: str) -> Mark | None:
        lower = self.model.lower(domain)
        writers = self.model.writers
        known_writers = {*self.members.get(domain, writers.keys())}
        new_writers = set()
        for name, writer in writers.items():
            if name not in known_writers and writer.is_of(domain):
                new_writers.add(name)
        mark = super().advance(domain)
        if mark is not None:
            self.members[domain] = known_writers | new_writers
            joined_writers = {
                writer.writer for writer in self.code.domains[domain].roster.named.joined
            }
            assert new_writers <= joined_writers <= new_writers | self.left[domain]
            for time in {max(lower + 1, 0), mark.lower}:
                self.check(domain, mark, time)
        return mark

    def check(self, domain: str, mark: Mark, time: int) -> None:
        missing = {writer.writer for writer in self.missing[domain].find_at_mark(mark).writers}
        counted_writers = set()
        may = set()
        for name, writer in self.model.writers.items():
            if is_counted(writer, domain):
                counted_writers.add(name)
            if self.vouched[name, domain] >= time:
                may.add(name)
        for stream in (
            self.code,
            restart(self.code, self.appended_served_ms, self.declared_served_ms),
        ):
            vouching_writers = {*count_vouching(stream, domain, mark.seq, time).names}
            assert counted_writers <= vouching_writers <= counted_writers | may
            assert time < mark.lower or not vouching_writers & missing
        self.said.append((domain, mark.seq, time, vouching_writers))


def is_counted(writer: Writer, domain: str) -> bool:
    has_finished = writer.state == "finished" and not writer.excluded and writer.is_of(domain)
    return writer.counts(domain) or has_finished


@given(settings=starts, history=steps)
def test_timeline_counts_all_writers(settings: StreamSettings, history: list[Step]) -> None:
    """Law: at each mark, also after a restart. Later, and once sealed, it counts no other writer.

    A writer that finished is an exception: the last mark may have had all its rows. So is one that
    was removed by mistake. One that left the domain may join it again.
    """
    timeline = Timeline.replay(settings, history)
    event(f"marks: {min(len(timeline.said), 9)}")
    seal(timeline.code)

    for domain, seq, time, vouching_writers in timeline.said:
        later_writers = {*count_vouching(timeline.code, domain, seq, time).names}
        assert later_writers <= vouching_writers | timeline.finished | timeline.removed
