"""Scenarios of one stream: acts and their answers; see `scenarios/*.txt`.

A paragraph of these files is a scenario: its fact, more about it, and its acts, indented.
Behind the arrow is the expected answer, of an error its name and its text; `…` stands for any
part. An act that begins with none of the words below is notes: writer, time, position, and other
fields by name. Notes without an arrow are accepted, and other acts without one do not fail.

    stream UA DL returning=exclude      a stream that UA and DL have joined, with these settings
    UA 10 0:5,1:7; DL 20                two notes
    @30 UA 9 -> invalid_time 10         another is refused; it is 30 ms on the service clock
    remove UX -> UnknownWriter: there is no writer 'UX': …
    marks lower excluded in=ship -> 9 UA; 20 -      these two fields of each mark made now
    restart                             from here on, the stream and a restarted one answer alike
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from noted_time.rules import Aggregator, forecast
from noted_time.rules.membership import ALWAYS_COUNTED
from noted_time.values import (
    Accepted,
    Beyond,
    Exclusion,
    LateReport,
    LateRows,
    Note,
    NotedTimeError,
    Refused,
    ScaleEvent,
    Session,
    StreamSettings,
)
from tests.core.test_vouching import count_vouching
from tests.support.paragraphs import is_answer, read_paragraphs
from tests.support.streams import TIMEOUT_MS, advance_all, deliver, restart, seal, waiting

ACT = re.compile(r"(?:@(?P<now>\d+) )?(?P<act>.*?)(?: +-> (?P<expected>.*))?")


def value_of(word: str) -> Any:  # noqa: ANN401 - any field of a note
    """Return the value of a word.

    >>> value_of("5"), value_of("0:5,1:7"), value_of("order,"), value_of("none"), value_of("idle")
    (5, {0: 5, 1: 7}, ('order',), None, 'idle')
    """
    if ":" in word:
        values: dict[Any, Any] = {}
        for pair in word.split(","):
            key, value = pair.split(":")
            values[value_of(key)] = value_of(value)
        return values
    if "," in word:
        return tuple(name for name in word.split(",") if name)
    if word.lstrip("-").isdigit():
        return int(word)
    return None if word == "none" else word


def parse_words(words: Iterable[str]) -> tuple[list[Any], dict[str, Any]]:
    """Return the plain words, and those with a name."""
    values: list[Any] = []
    options: dict[str, Any] = {}
    for word in words:
        name, equals_sign, value = word.rpartition("=")
        if equals_sign:
            options[name] = value_of(value)
        else:
            values.append(value_of(value))
    return values, options


def parse_note(text: str) -> Note:
    values, options = parse_words(text.split())
    return build_note(*values, **options)


def build_note(writer: str, *values: Any, **fields: Any) -> Note:  # noqa: ANN401 - any field
    """Return a note; its late rows are their number, their least time and their largest."""
    plain_fields: dict[str, Any] = {}
    for value in values:
        plain_fields["position" if isinstance(value, dict) else "time"] = value
    if late := fields.get("late_rows"):
        fields["late_rows"] = [LateRows(*[int(number) for number in late])]
    return Note(writer, **plain_fields, **fields)


def show_value(value: object) -> str:
    if isinstance(value, Accepted):
        return show_acceptance(value)
    if isinstance(value, Refused):
        parts = (value.status, value.last, value.beyond)
        return " ".join(show_value(part) for part in parts if part is not None)
    if isinstance(value, Session):
        lost_ids = show_value([loss.id for loss in value.lost])
        value = f"{value.id} {value.label} @{value.began_at} {lost_ids}"
    if isinstance(value, Beyond | Exclusion):
        facts = asdict(value)
        facts.pop("lower", None)
        return "@".join(str(fact) for fact in facts.values())
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{element}" for key, element in value.items()) or "-"
    if isinstance(value, tuple | list):
        return ",".join(str(element) for element in value) or "-"
    return "-" if value is None else str(value)


def show_acceptance(answer: Accepted) -> str:
    fields = asdict(answer)
    fields["exclusion"] = answer.exclusion
    lower = fields.pop("lower")
    words = ["ok" if lower is None else f"ok {lower}"]
    for name, value in fields.items():
        if value is not None:
            words.append(f"{name}={show_value(value)}")
    return " ".join(words)


def show_report(domain: str, report: LateReport) -> str:
    facts = asdict(report)
    words = [domain, "{writer} {min_time}..{max_time}".format_map(facts)]
    for name in ("rows", "lateness", "may_have_more", "first_seen_at", "last_seen_at"):
        if facts[name]:
            words.append(f"{name}={facts[name]}")
    return " ".join(words)


def rows(records: Iterable[object], fields: list[str]) -> str:
    texts = []
    for record in records:
        values = [attrgetter(name)(record) for name in fields]
        texts.append(" ".join(show_value(value) for value in values))
    return "; ".join(texts) or "-"


@dataclass
class Scenario:
    """A stream, its restarted copies, and the time on the service clock."""

    streams: list[Aggregator] = field(default_factory=list)
    now: int = 0
    appended_served_ms: dict[str, int] = field(default_factory=dict)
    declared_served_ms: dict[str, int] = field(default_factory=dict)

    def perform(self, line: str) -> None:
        act = ACT.fullmatch(re.sub(r"\n +", " ", line))
        assert act
        self.now = int(act["now"] or self.now)
        verb, *words = act["act"].split()
        if verb in {"stream", "restart"}:
            values, options = parse_words(words)
            getattr(self, verb)(*values, **options)
            return
        expected = act["expected"]
        answers = [self.ask(stream, act["act"], expected) for stream in self.streams]
        assert answers == answers[:1] * len(answers), (line, answers)
        if expected is not None:
            assert is_answer(expected, str(answers[0])), (line, answers[0])
        elif not hasattr(self, verb):
            statuses = {answer.split()[0] for answer in answers[0].split("; ")}
            assert statuses == {"ok"}, (line, answers[0])

    def ask(self, stream: Aggregator, act: str, expected: str | None) -> Any:  # noqa: ANN401
        """Return the answer of an act, which fails only if an answer is expected."""
        verb, *words = act.split()
        try:
            if not hasattr(self, verb):
                return self.notes(stream, act)
            values, options = parse_words(words)
            return getattr(self, verb)(stream, *values, **options)
        except NotedTimeError as error:
            if expected is None:
                raise
            return f"{type(error).__name__}: {error}"

    def stream(self, *writers: str, returning: str = "wait", **settings: Any) -> None:  # noqa: ANN401
        terms: Any = {"writer_timeout_ms": TIMEOUT_MS, "returning_writer": returning, **settings}
        self.streams = [Aggregator(StreamSettings(**terms))]
        self.appended_served_ms = {}
        domain = self.streams[0].settings.domains[0]
        for writer in writers:
            (result,) = deliver(self.streams[0], Note(writer, domain=domain), now=self.now)
            assert isinstance(result, Accepted), (writer, result)

    def restart(self) -> None:
        self.streams.append(
            restart(self.streams[0], self.appended_served_ms, self.declared_served_ms)
        )

    def notes(self, stream: Aggregator, text: str) -> str:
        notes = [parse_note(note_text) for note_text in text.split("; ")]
        return "; ".join(show_value(stream.note(note, self.now)) for note in notes)

    def report(self, stream: Aggregator, *values: Any, **named: Any) -> str:  # noqa: ANN401 - any field
        """Note, and show by domain which rows may be late."""
        note = build_note(*values, **named)
        assert isinstance(stream.note(note, self.now), Accepted)
        return (
            "; ".join(show_report(*report) for report in stream.report_late(note, self.now)) or "-"
        )

    def clock(self, stream: Aggregator, unix_ahead: int) -> None:
        """Let the clock of the controller's machine be ahead of the service clock."""
        stream.domains.unix_ahead = unix_ahead

    def marks(self, stream: Aggregator, *fields: str, **within: str) -> str:
        domain = within.get("in", "default")
        if marks := advance_all(stream, domain, now=self.now):
            self.appended_served_ms[domain] = self.now
        return rows(marks, [*fields] or ["lower"])

    def waiting(self, stream: Aggregator, *fields: str, **within: str) -> str:
        waiting_writers = waiting(stream, within.get("in", "default"), now=self.now)
        return rows(waiting_writers, [*fields] or ["writer"])

    def decision(self, stream: Aggregator) -> str:
        return (
            type(stream.decide("default", now=self.now)).__name__.removesuffix("ForWriters").lower()
        )

    def expire(self, stream: Aggregator) -> str:
        return show_value(stream.expire(self.now))

    def next_timeout(self, stream: Aggregator) -> str:
        return show_value(stream.next_timeout())

    def members(self, stream: Aggregator) -> str:
        return show_value(list(stream.writers()))

    def record(self, stream: Aggregator, writer: str, *fields: str) -> str:
        record = stream.record(writer)
        return rows([record], [*fields]) if fields else str(record)

    def membership(self, stream: Aggregator, writer: str, *fields: str) -> str:
        """Show facts of a writer that differ from those of one that each mark counts."""
        words = []
        for name in fields:
            values = {}
            for domain, track in stream.domains.list_tracks(stream.member(writer)):
                value = getattr(track.membership, name)
                if value != getattr(ALWAYS_COUNTED, name):
                    values[domain.name] = show_value(value)
            words.append(show_value(values))
        return " ".join(words)

    def named(self, stream: Aggregator, *fields: str) -> str:
        return rows(stream.domains["default"].roster.named.absences, [*fields])

    def vouched(self, stream: Aggregator, seq: int, time: int, **within: str) -> str:
        """Show who vouches for a time at a mark, and who does not."""
        vouching = count_vouching(stream, within.get("in", "default"), seq, time)
        other_writers = rows(vouching.not_vouching, ["writer", "reason", "to_time"])
        return f"{show_value(vouching.names)}; {other_writers}"

    def joined(self, stream: Aggregator, *fields: str) -> str:
        """Show the writers that joined at the last mark, and those not counted yet."""
        domain = stream.domains["default"]
        joined_writers = rows(domain.roster.named.joined, [*fields] or ["writer"])
        other_writers = rows(domain.roster.not_joined, ["writer"])
        return f"{joined_writers}; {other_writers}"

    def would(self, stream: Aggregator, *removed: str, **within: str) -> str:
        """Show the outcome of a dry run without these writers."""
        dry_run = stream.dry_run(within.get("in", "default"), removed, None, self.now)
        return rows([dry_run], ["decision", "lower", "cut.offsets", "excluded"])

    def forecast(self, stream: Aggregator) -> str:
        expected_mark = forecast(stream.domains, stream.domains["default"])
        return rows([expected_mark], ["served_ms", "lower", "writers"]) if expected_mark else "-"

    def expect(self, stream: Aggregator, writer: str) -> str:
        return show_value(stream.expect([writer], now=self.now))

    def suspend_timeout(self, stream: Aggregator, writer: str, until: int) -> None:
        stream.suspend_timeout(writer, until)

    def remove(self, stream: Aggregator, writer: str, by: str = "") -> None:
        stream.remove(writer, now=self.now, operator=by)

    def end(self, stream: Aggregator, writer: str, domain: str) -> None:
        stream.end_narrowing(writer, domain)

    def forget(self, stream: Aggregator, most: int = 100) -> str:
        return show_value(stream.forget_departed(self.now, most))

    def scale(self, stream: Aggregator, sealed: dict[int, int], **created: tuple[str, ...]) -> None:
        predecessors = {}
        for segment, names in created.items():
            predecessors[int(segment)] = tuple(int(name) for name in names)
        stream.scale(ScaleEvent(sealed, predecessors))

    def settle(self, stream: Aggregator, cut: dict[int, int]) -> None:
        """Forget sealed segments that are whole in the cut of the first mark kept."""
        stream.set_first_cuts([cut])

    def seal(
        self, stream: Aggregator, cut: dict[int, int] | None = None, **final_times: int
    ) -> str:
        final_mark = seal(stream, cut, final_times, now=self.now)
        return f"{show_value(final_mark.final_cut)} {show_value(final_mark.never_noted)}"

    def domain(self, stream: Aggregator, *fields: str, **within: str) -> str:
        return rows([stream.domains[within.get("in", "default")]], [*fields])

    def last(self, stream: Aggregator, *fields: str, **within: str) -> str:
        return rows([stream.domains[within.get("in", "default")].last], [*fields])

    def settings(self, stream: Aggregator, **changed: Any) -> None:  # noqa: ANN401 - any setting
        new_domains = set(changed.get("domains", ())) - set(stream.settings.domains)
        self.declared_served_ms |= dict.fromkeys(new_domains, self.now)
        stream.reconfigure(replace(stream.settings, **changed), now=self.now)


PARAGRAPHS: list[Any] = []
for scenario_file in sorted(Path(__file__).with_name("scenarios").glob("*.txt")):
    PARAGRAPHS += read_paragraphs(scenario_file)


@pytest.mark.parametrize("acts", PARAGRAPHS)
def test_scenario(acts: list[str]) -> None:
    scenario = Scenario()

    for act in acts:
        scenario.perform(act)


@pytest.mark.parametrize(
    ("act", "answer"),
    [
        ("UA 5; UA 4", "ok; invalid_time 5"),
        ("UA 4", "invalid_time 5"),
        ("UA 4 -> ok", "invalid_time 5"),
        ("scale 0:5 1=0, -> InvalidScale: segment 0:", "InvalidScale: segment 0: is not known"),
    ],
)
def test_scenario_with_another_answer_fails(act: str, answer: str) -> None:
    """Either a note without an arrow was refused, or the text is only the beginning."""
    scenario = Scenario()
    for line in ("stream", "UA 5", "restart"):
        scenario.perform(line)

    with pytest.raises(AssertionError, match=answer):
        scenario.perform(act)


def test_refusal_by_a_copy_alone_fails_the_scenario() -> None:
    scenario = Scenario()
    for line in ("stream", "UA 5", "restart"):
        scenario.perform(line)
    scenario.streams[1].note(Note("UA", 9), 0)

    with pytest.raises(AssertionError, match="invalid_time 9"):
        scenario.perform("UA 6")
