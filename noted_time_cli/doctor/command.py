"""`noted-time doctor`: collect facts, and print the findings of the rules."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Annotated

import typer

import noted_time
from noted_time import NotAllowed, NotedTimeError, Rejected, UnexpectedAnswer, UnknownStream
from noted_time.answers import (
    AccessAnswer,
    ControllersAnswer,
    Explanation,
    StreamAnswer,
    WritersPage,
)
from noted_time.client import Question, Reply, ask_in_turn, stream_path
from noted_time.client.transport import Transport
from noted_time.extensions import FoundExtensions, describe_absence, find_check, name_check
from noted_time.installation import name_program
from noted_time.values import MOST_DOMAINS, find_zone_release
from noted_time_cli.client.caller import MOST_ROWS, Caller
from noted_time_cli.doctor import controller_rules, spark_rules, stream_rules, topic_rules
from noted_time_cli.doctor.stream_rules import ExaminedStream
from noted_time_cli.doctor.verdict import Finding, Outcome, Report
from noted_time_cli.terminal.brokers import Config, TopicOption, build_kafka_config
from noted_time_cli.terminal.flags import command, refuse_options
from noted_time_cli.terminal.options import DEFAULT_URL, AsJson, StreamOrNone, Token, Url, option
from writer_client.sending.clock import unix_ms

CHECK_S = 5.0


@dataclass(frozen=True, slots=True)
class ExaminedParts:
    """The parts to check in addition to the controller."""

    stream: StreamOrNone = None
    kafka: Annotated[str | None, option("BOOTSTRAP", "The brokers, as `host:port`.")] = None
    topic: TopicOption = None
    config: Config = None
    log: Annotated[str | None, option("ROOT", "The root of the stream's file log.")] = None
    checkpoint: Annotated[
        str | None, option("DIR", "The checkpoint of a Spark query; may be a URI.")
    ] = None


@command
def doctor(
    context: typer.Context,
    parts: ExaminedParts,
    *,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Something does not work? Check all parts, and print what is wrong and how to fix it.

    The command checks the controller and the token, the stream and its writers. If given, it checks
    the Kafka topic, the file log and the checkpoint, too.

    Nothing is changed. If a part is not installed or not reachable, the other parts are still
    checked. Ends with status 1 if something is wrong.

    Try it:  noted-time doctor flights --kafka 127.0.0.1:9092 --checkpoint checkpoints/hourly
    """
    if not (parts.kafka or parts.checkpoint):
        refuse_options(context, "without --kafka or --checkpoint", "topic")
    if not parts.kafka:
        refuse_options(context, "without --kafka", "config")
    if not (parts.stream or parts.topic):
        refuse_options(context, "without STREAM", "log")
    url_origin = _describe_origin(context, "url")
    token_origin = _describe_origin(context, "token") if token else ""
    report = Report(as_json)
    report.add(_list_extensions(context.obj))
    connect = partial(Transport, url, token=token, timeout_s=CHECK_S)
    _examine(report, parts, connect, url_origin, token_origin)
    if report.end():
        raise typer.Exit(1)


def _list_extensions(extensions: FoundExtensions) -> list[Finding]:
    names = ", ".join(extension.name for extension in extensions.used) or "none"
    broken = [
        Finding(f"extension {name}", "wrong", f"it is not used: {reason}", "update or remove it")
        for name, reason in extensions.unused.items()
    ]
    return [Finding("extensions", "ok", names), *broken]


def _describe_origin(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    origins = {"COMMANDLINE": f"from --{name}", "ENVIRONMENT": f"from NOTED_TIME_{name.upper()}"}
    if source is None:
        return "the default"
    return origins.get(source.name, "the default")


def _examine(
    report: Report,
    parts: ExaminedParts,
    connect: partial[Transport],
    url_origin: str,
    token_origin: str,
) -> None:
    stream = parts.stream or parts.topic
    call: Caller | None = None
    examined_stream: ExaminedStream | None = None
    with ExitStack() as stack:
        answering_call = _check_controllers(report, stack, connect, url_origin)
        if answering_call:
            with report.attempting("token", _find_answer_remedy):
                if _is_allowed(report, answering_call, stream, token_origin):
                    call = answering_call
        if call and stream:
            with report.attempting("stream", _find_answer_remedy):
                examined_stream = _check_stream(report, call, stream)
        elif stream:
            fact = f"no controller answered for {stream}"
            report.add([Finding("stream", "not checked", fact)])
        is_mistyped = bool(stream) and not examined_stream and report.found[-1].outcome == "wrong"
        if parts.kafka:
            with report.attempting("broker", topic_rules.find_remedy):
                is_reported = is_mistyped and not parts.topic  # the topic has the same name
                if_missing: Outcome = "not checked" if is_reported else "wrong"
                report.add(_check_topic(parts, stream, examined_stream, if_missing))
        if parts.log and stream:
            with report.attempting("file log", ""):
                report.add(_call_check("log", "file log", parts.log, stream))
        if parts.checkpoint:
            remedy = "name the query's checkpointLocation, or install the library that reads it"
            with report.attempting("checkpoint", remedy):
                required_names = () if is_mistyped else (parts.stream, parts.topic)
                report.add(_check_checkpoint(parts.checkpoint, call, required_names))


def _check_controllers(
    report: Report, stack: ExitStack, connect: partial[Transport], url_origin: str
) -> Caller | None:
    """Check each URL, and return a caller if a controller answers at one of them."""
    call: Caller | None = None
    with report.attempting("controller", f"correct it; this URL is {url_origin}"):
        transport = stack.enter_context(closing(connect()))
        for url in transport.controllers.urls:
            with report.attempting("controller", partial(_find_url_remedy, url, url_origin)):
                report.add(_check_controller(url, url_origin))
                call = Caller(transport)
    return call


def _check_controller(url: str, url_origin: str) -> list[Finding]:
    sent_ms = unix_ms()
    reply = _fetch_ready(url)
    received_ms = unix_ms()
    reply.read(Question("GET", "/readyz"))
    is_ready = Finding("controller", "ok", f"{url} ({url_origin}) is ready")
    return [
        is_ready,
        *controller_rules.judge_clock(reply.headers.get("date"), sent_ms, received_ms),
    ]


def _fetch_ready(url: str) -> Reply:
    with closing(Transport(url, timeout_s=CHECK_S)) as transport:
        question: Question[dict[str, object]] = Question("GET", "/readyz")
        steps = ask_in_turn(transport.controllers, lambda: question, lambda reply: reply)
        return transport.run(steps)


def _find_url_remedy(url: str, url_origin: str, _error: NotedTimeError) -> str:
    scheme, _, address = url.partition("://")
    other_scheme = "http" if scheme == "https" else "https"
    other_url = f"{other_scheme}://{address}"
    remedy = f"this URL is {url_origin}"
    try:
        _fetch_ready(other_url)
    except NotedTimeError as error:
        if controller_rules.UNTRUSTED_ERROR not in str(error):  # such an error speaks HTTPS
            return remedy
    return f"use {other_url}; {remedy}"


def _find_answer_remedy(error: NotedTimeError) -> str:
    return "" if isinstance(error, Rejected) else "see the log of the controller"


def _is_allowed(report: Report, call: Caller, stream: str | None, token_origin: str) -> bool:
    try:
        access = call.ask_json(Question("GET", "/v1/access", answer=AccessAnswer))
    except NotAllowed as error:
        origin = f" (a token {token_origin} was sent)" if token_origin else ""
        create = f"{name_program()} token create --scope read"
        remedy = f"{create}, and pass it by --token or NOTED_TIME_TOKEN"
        report.add([Finding("token", "wrong", f"{error}{origin}", remedy)])
        return False
    report.add(controller_rules.judge_versions(access["version"], noted_time.__version__))
    report.add(controller_rules.judge_zone_data(access["zone_data"], find_zone_release()))
    report.add(controller_rules.judge_token(access, stream))
    if access["read_all"]:
        query = {"check": "true"}
        answer = call.ask(Question("GET", "/v1/controllers", query, answer=ControllersAnswer))
        report.add(controller_rules.judge_database(answer.risk))
    return True


def _check_stream(report: Report, call: Caller, name: str) -> ExaminedStream | None:
    try:
        stream = call.ask_json(Question("GET", stream_path(name), answer=StreamAnswer))
    except NotAllowed as error:
        remedy = f"{name_program()} token create --scope read --stream {name}"
        report.add([Finding("stream", "not checked", str(error), remedy)])
        return None
    path = stream_path(name, "writers")
    page = call.ask_json(Question("GET", path, {"limit": MOST_ROWS}, answer=WritersPage))
    domains: list[str] = stream["domains"]
    if len(domains) > MOST_DOMAINS:  # another service has answered
        raise UnexpectedAnswer(f"the controller sent an unexpected answer: {len(domains)} domains")
    path = stream_path(name, "explain")
    explanations = {
        domain: call.ask_json(Question("GET", path, {"domain": domain}, answer=Explanation))
        for domain in domains
    }
    facts = ExaminedStream(stream, page, explanations)
    report.add(stream_rules.judge_stream(facts))
    return facts


def _check_topic(
    parts: ExaminedParts,
    stream: str | None,
    examined_stream: ExaminedStream | None,
    if_missing: Outcome,
) -> list[Finding]:
    from noted_time.kafka import Topic

    name = parts.topic or stream
    if name is None:
        raise Rejected("no topic is given: use --topic, or give a stream")
    topic = Topic(build_kafka_config(parts.kafka or "", parts.config), name)
    try:
        look = topic.look(newest=True)
        operations = topic.operations()
    except Rejected as error:
        if "Kafka topic" not in str(error):  # the broker refuses the client
            raise
        return [_build_refusal("topic", if_missing, error)]
    answers = Finding("broker", "ok", f"{parts.kafka} answers, and has topic {name}")
    try:
        values = topic.settings()
        setting_findings = topic_rules.judge_topic(values, look, examined_stream, unix_ms())
        setting_findings += topic_rules.judge_replication(values, topic.count_replicas())
    except Rejected as error:
        setting_findings = [_build_refusal("topic settings", "not checked", error)]
    log_findings: list[Finding] = []
    if examined_stream is not None:
        log_findings = topic_rules.judge_log(look, examined_stream)
        is_same_log = all(finding.outcome == "ok" for finding in log_findings)
        if is_same_log:  # offsets of another log say nothing
            log_findings += topic_rules.judge_segments(look, examined_stream)
    return [answers, *topic_rules.judge_rights(operations), *setting_findings, *log_findings]


def _call_check(option_name: str, check: str, value: str, stream: str) -> Iterable[Finding]:
    """Check the value of an option by the extension that has the check."""
    function = find_check(option_name)
    if function is None:
        absence = describe_absence(name_check(option_name)) or ""
        fact, _, remedy = absence.partition(": ")
        return [Finding(check, "not checked", fact, remedy)]
    findings: Iterable[Finding] = resolve_name(function)(value, stream)
    return findings


def _build_refusal(check: str, outcome: Outcome, error: Rejected) -> Finding:
    fact, _, remedy = str(error).rpartition(": ")
    return Finding(check, outcome, fact, remedy)


def _check_checkpoint(
    place: str, call: Caller | None, required_names: Iterable[str | None]
) -> list[Finding]:
    from spark_integration.checkpoint.files import open_checkpoint
    from spark_integration.checkpoint.query_progress import QueryProgress

    names = open_checkpoint(place).list_names("offsets")
    batches = [int(name) for name in names if name.isdigit()]
    if not batches:
        raise Rejected(f"{place} has no micro-batch of a query")
    try:
        offsets = QueryProgress(place).read_batch(max(batches)).offsets
        sources = list(spark_rules.find_sources(offsets))
    except (ValueError, LookupError) as error:
        raise Rejected(f"{place} has no offset log of Spark: {error!r}") from error
    ids: dict[str, str | None] = {}
    if call:
        streams = {source.stream for source in sources if source.stream_id}
        ids = {stream: _find_stream_id(call, stream) for stream in streams}
    given_names = [name for name in required_names if name]
    return list(spark_rules.judge_checkpoint(place, sources, ids, given_names))


def _find_stream_id(call: Caller, stream: str) -> str | None:
    try:
        return call.ask(Question("GET", stream_path(stream), answer=StreamAnswer)).id
    except UnknownStream:
        return None
