"""`noted-time doctor`: asks controllers, broker and Spark, and prints what the rules say."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer

from noted_time import NotAllowed, Rejected, UnexpectedAnswer, UnknownStream
from noted_time.client import Json, Question, ask_in_turn, stream_path
from noted_time.client.transport import Transport
from noted_time_cli.calls.calling import MOST_ROWS, Caller
from noted_time_cli.doctor import controller_rules, spark_rules, stream_rules, topic_rules
from noted_time_cli.doctor.verdict import Finding, attempted, report
from noted_time_cli.terminal.brokers import Config, kafka_config
from noted_time_cli.terminal.flags import command
from noted_time_cli.terminal.options import DEFAULT_URL, AsJson, StreamOrNone, Token, Url, option
from writer_client.sending.clock import unix_ms

if TYPE_CHECKING:
    from noted_time.kafka import TopicLook

CHECK_S = 5.0

MOST_DOMAINS = 100
"""A stream has no more of them, so an answer with more is no controller's."""

MOST_HINTS = 100
"""Maximum number of hints that are shown."""

Verdicts = Generator[Finding, None, None]
StreamAnswers = tuple[Json, list[Json]]
"""A stream and its writers, as a controller shows them."""

UNKNOWN: StreamAnswers = ({"marks": {}, "max_time_ahead_ms": 0, "logs": []}, [])


@dataclass(frozen=True, slots=True)
class Examined:
    """What to look at beside the controller; what is not named is not looked at."""

    stream: StreamOrNone = None
    kafka: Annotated[str | None, option("BOOTSTRAP", "The brokers, as `host:port`.")] = None
    topic: Annotated[str | None, option("TOPIC", "Its name, if not the stream's.")] = None
    config: Config = None
    checkpoint: Annotated[str | None, option("DIR", "That of a Spark query; may be a URI.")] = None


@command
def doctor(
    context: typer.Context,
    examined: Examined,
    *,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Something does not work? Check all parts, and say what is wrong and what to do about it.

    Looks at the controller, its clock and version, the token, the stream with its writers, the
    Kafka topic, a checkpoint, and at Spark and Java here. It changes nothing. What is not installed
    or cannot be reached is said, and the rest is checked all the same. Ends with status 1 if
    something is wrong.

    Try it:  noted-time doctor flights --kafka 127.0.0.1:9092 --checkpoint checkpoints/hourly
    """
    taken = _taken(context, "url")
    shown = _taken(context, "token") if token else ""
    if report(_all(examined, url, token, taken, shown), as_json=as_json):
        raise typer.Exit(1)


def _taken(context: typer.Context, name: str) -> str:
    source, variable = context.get_parameter_source(name), f"from NOTED_TIME_{name.upper()}"
    named = {"COMMANDLINE": f"from --{name}", "ENVIRONMENT": variable}
    return named.get(source.name if source else "", "the default")


def _all(examined: Examined, url: str, token: str | None, taken: str, shown: str) -> Verdicts:
    start = f"start it (noted-time serve), or name another by --url; this URL is {taken}"
    asked = _controllers(url, token, taken, start)
    call = yield from attempted("controller", asked, start)
    stream, answered = examined.stream or examined.topic, None
    with nullcontext() if call is None else closing(call.transport):
        if call and not (yield from attempted("token", _token(call, stream, shown), start)):
            call = None
        if call and stream:
            answered = yield from attempted("stream", _stream(call, stream), "correct the name")
        elif stream:
            yield Finding("stream", "not checked", f"no controller answered for {stream}")
        if examined.kafka:
            found = _topic(examined, stream, answered or UNKNOWN)
            yield from attempted("broker", found, "docs/guides/secured-brokers.md")
        if examined.checkpoint:
            found = _checkpoint(examined.checkpoint, call)
            yield from attempted("checkpoint", found, "name the query's checkpointLocation")
    yield from attempted("spark", _spark(), "docs/reference/which-spark.md")


def _controllers(
    urls: str, token: str | None, taken: str, start: str
) -> Generator[Finding, None, Caller | None]:
    """Judge each controller; returns what calls them if one answers."""
    call, answered = Caller(Transport(urls, token=token, timeout_s=CHECK_S)), False
    for url in call.transport.controllers.urls:
        is_ready = yield from attempted("controller", _controller(url, taken), start)
        answered = answered or bool(is_ready)
    return call if answered else None


def _controller(url: str, taken: str) -> Generator[Finding, None, bool]:
    with closing(Transport(url, timeout_s=CHECK_S)) as transport:
        question, sent = Question("GET", "/readyz"), unix_ms()
        asked = ask_in_turn(transport.controllers, lambda: question, lambda reply: reply)
        reply, received = transport.run(asked), unix_ms()
    reply.body("")
    yield Finding("controller", "ok", f"{url} ({taken}) is ready")
    yield from controller_rules.clock(reply.headers.get("date"), sent, received)
    return True


def _token(call: Caller, stream: str | None, shown: str) -> Generator[Finding, None, bool]:
    """Judge version and token; returns whether the controller takes it."""
    try:
        access = call.ask("GET", "/v1/access")
    except NotAllowed as error:
        given = f" (a token {shown} was shown)" if shown else ""
        make = "noted-time token create --scope read, and show it by --token or NOTED_TIME_TOKEN"
        yield Finding("token", "wrong", f"{error}{given}", make)
        return False
    yield from controller_rules.versions(access.get("version"), version("noted-time"))
    yield from controller_rules.token(access, stream)
    return True


def _stream(call: Caller, name: str) -> Generator[Finding, None, StreamAnswers | None]:
    """Judge a stream; returns it with its writers, `None` if this token may not read it."""
    try:
        stream = call.ask("GET", stream_path(name))
    except NotAllowed as error:
        read = f"noted-time token create --scope read --stream {name}"
        yield Finding("stream", "not checked", str(error), read)
        return None
    yield from stream_rules.stream_settings(stream)
    page = call.ask("GET", stream_path(name, "writers"), query={"limit": MOST_ROWS})
    hints: dict[tuple[str, str], Json] = {}
    domains = stream["domains"]
    if len(domains) > MOST_DOMAINS:
        raise UnexpectedAnswer(f"the controller answered oddly: {len(domains)} domains")
    for domain in domains:
        explained = call.ask("GET", stream_path(name, "explain"), query={"domain": domain})
        yield from stream_rules.time_domain(name, domain, explained)
        hints |= {(each["writer"], each["hint"]): each for each in explained["hints"]}
    yield from stream_rules.writers_of(stream, page, list(hints.values())[:MOST_HINTS])
    return stream, page["writers"]


def _topic(examined: Examined, stream: str | None, answered: StreamAnswers) -> Verdicts:
    from noted_time.kafka import Topic

    name = examined.topic or stream
    if name is None:
        raise Rejected("no topic is named: use --topic, or name a stream")
    topic, (found, rows) = (
        Topic(kafka_config(examined.kafka or "", examined.config), name),
        answered,
    )
    look = topic.look(newest=True)
    yield Finding("broker", "ok", f"{examined.kafka} answers, and has topic {name}")
    yield from topic_rules.rights(topic.operations())
    is_observed = bool(rows) and all(each.get("observes") for each in rows)
    try:
        settings, ahead_ms = topic.settings(), found["max_time_ahead_ms"]
        age = _age_ms(found, look)
        yield from topic_rules.topic_settings(settings, age, ahead_ms, is_observed=is_observed)
    except Rejected as error:
        fact, _, remedy = str(error).rpartition(": ")
        yield Finding("topic settings", "not checked", fact, remedy)
    if found is not UNKNOWN[0]:
        yield from topic_rules.log_of(look, found)
        yield from topic_rules.segments_of(look, rows)


def _age_ms(stream: Json, look: TopicLook) -> int:
    """Return how old events were when a mark was made; without marks, how old the newest is."""
    ages: list[int] = [m["written_at"] - m["lower"] for m in stream["marks"].values() if m]
    newest = max((stamp.time for stamp in look.newest.values()), default=unix_ms())
    return max(0, *(ages or [unix_ms() - newest]))


def _checkpoint(place: str, call: Caller | None) -> Verdicts:
    from spark_integration.checkpoint.files import checkpoint_files
    from spark_integration.checkpoint.query_progress import QueryProgress

    batches = [int(name) for name in checkpoint_files(place).names("offsets") if name.isdigit()]
    if not batches:
        raise Rejected(f"{place} has no micro-batch of a query")
    try:
        found = list(spark_rules.read_streams(QueryProgress(place).planned(max(batches)).offsets))
    except (ValueError, LookupError) as error:
        raise Rejected(f"{place} has no offset log of Spark: {error!r}") from error
    names = {stream for stream, _, own in found if own and call is not None}
    ids = {name: _id_of(call, name) for name in names if call is not None}
    yield from spark_rules.checkpoint(place, found, ids)


def _id_of(call: Caller, stream: str) -> str | None:
    try:
        return str(call.ask("GET", stream_path(stream))["id"])
    except UnknownStream:
        return None


def _spark() -> Verdicts:
    from spark_integration.session import jars, versions

    running, needs = version("pyspark"), (versions.OLDEST, versions.PYTHON_SOURCES)
    yield from spark_rules.spark_release(running, versions.release_of(running), *needs)
    places = (jars.brought_directory(), jars.default_directory())
    found = {jar.name: str(place) for place in places for jar in place.glob("*.jar")}
    yield from spark_rules.connector([jar.file for jar in jars.CONNECTOR], found, running)
    yield from attempted("java", _java(), "set JAVA_HOME")


def _java() -> Verdicts:
    from spark_integration.session.jars import java

    words = [java(), "-version"]
    said = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - Java
    yield from spark_rules.java_release(words[0], said.stderr + said.stdout)
