"""The laws over all that actors know, and the answers in the end."""

from collections.abc import Mapping

from tests.trials.actors.collecting import Said
from tests.trials.actors.history import History
from tests.trials.actors.load import ScaledStream
from tests.trials.facts import Answer, Claim, complete
from tests.trials.judge import judge as judge_facts


def judge(history: History, answers: Mapping[str, Said]) -> None:
    """Check every law of every stream, and have the history remember what broke."""
    for name, stream in history.streams.items():
        _judge_stream(history, stream, answers[name])
        for domain in stream.domains:
            _judge_domain(history, stream, domain, answers[name])


def _judge_stream(history: History, stream: ScaledStream, answer: Said) -> None:
    heard = stream.scalings[: len(stream.heard_at)]
    sent_scalings = stream.scalings
    silent = history.silent.get(stream.name)
    acknowledged_claims = {}
    promised_claims = {}
    states = {}
    for writer in stream.writers:
        name = writer.name
        acknowledged_position = complete(writer.acknowledged_position, heard)
        acknowledged_claims[name] = Claim(writer.acknowledged, acknowledged_position)
        promised_claims[name] = Claim(writer.promised, complete(writer.position, sent_scalings))
        if name == silent:
            states[name] = "excluded"
        elif writer.state != "new":
            states[name] = writer.state
    broken = judge_facts(
        members=answer.writers,
        acknowledged=acknowledged_claims,
        promised=promised_claims,
        states=states,
        group=answer.readers,
        reported=history.reported[stream.name],
        reporting=history.reporting[stream.name],
        scale_events=answer.scale_events,
        scalings=stream.scalings,
    )
    history.add_broken(stream.name, broken)


def _judge_domain(history: History, stream: ScaledStream, domain: str, answer: Said) -> None:
    chain = history.chains[stream.name, domain]
    marks = chain.whole(answer.marks[domain])
    rows = [(event.segment, event.offset, event.times[domain]) for event in stream.events]
    facts: dict[str, object] = {
        "marks": marks,
        "rows": rows,
        "answers": [*chain.answers, Answer(0, marks)],
        "looks": chain.looks,
        "sent": chain.sent,
        "windows": chain.windows,
        "scalings": stream.scalings,
        "scaled_at": chain.scaled_at,
        "first": answer.marks[domain][0]["seq"] if answer.marks[domain] else None,
        "first_asked": chain.first_asked,
        "first_heard": chain.first_heard,
    }
    if len(stream.domains) == 1 and not stream.shared:
        facts["declared"] = rows
    if stream.returning_writer == "wait":  # the other excludes any that returns below the lower
        facts["silent"] = history.silent.get(stream.name)
        facts["absences"] = history.absences.get(stream.name)
    history.add_broken(f"{stream.name}/{domain}", judge_facts(**facts))
