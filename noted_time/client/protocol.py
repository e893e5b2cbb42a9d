"""Build questions to a controller and read replies, without I/O.

The logic of clients is in generators. Each yields an effect (a request, a pause) and resumes with
its outcome.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import ValidationError

from noted_time.client.controllers import OWNER_HEADER, Controllers
from noted_time.client.problems import SUCCESS_STATUSES, error_of
from noted_time.coding import DECODE_ERRORS, build_decoder
from noted_time.installation import name_program
from noted_time.values import Rejected, UnexpectedAnswer, Unreachable, validate_name

Answer = TypeVar("Answer")
Effect = TypeVar("Effect")
Outcome = TypeVar("Outcome")
Result = TypeVar("Result")

STREAMS_PATH = "/v1/streams"
NO_CONTENT = 204
SHOWN_CHARACTERS = 200

MOST_BYTES = 32 * 1024 * 1024
"""The maximum size of an answer; a controller's have a few MiB."""

UNCOMPRESSED_HEADERS = {"accept-encoding": "identity"}

REQUEST_HEADER = "noted-request"
"""The header with the id of a request, which the controller repeats in its answer."""

REQUEST_ID_BYTES = 8

MOST_ATTEMPTS = 3
"""How often the client asks a controller whose answers belong to other requests."""

REPEATABLE_METHODS = frozenset(("GET", "PUT"))
REPEATABLE_POSTS = frozenset(
    ("notes", "completeness", "time-window", "segment-times", "event-time-form")
)


@dataclass(frozen=True, slots=True)
class Question(Generic[Answer]):
    """One request, and the type of its answer. `path` is relative to the controller's URL."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: object = None
    wait_ms: int = 0
    answer: type[Answer] = dict  # type: ignore[assignment] # any JSON object

    @property
    def stream(self) -> str:
        return self.path.removeprefix(STREAMS_PATH).strip("/").partition("/")[0]

    @property
    def is_repeatable(self) -> bool:
        """Whether a repetition changes nothing.

        >>> Question("POST", "/v1/streams/s/notes").is_repeatable
        True
        >>> Question("POST", "/v1/streams/s/seal").is_repeatable
        False
        """
        if self.method == "POST":
            return self.path.rpartition("/")[2] in REPEATABLE_POSTS
        return self.method in REPEATABLE_METHODS

    def can_have(self, answer: Answer) -> bool:  # noqa: ARG002 - for questions that restrict it
        """Return whether this may be the answer, if the controller did not repeat the id."""
        return True


class ForeignAnswer(UnexpectedAnswer):
    """The answer belongs to another request, so the outcome of this request is unknown."""

    def __init__(self, question: Question[Any]) -> None:
        remedy = "look for a cache or proxy"
        if not question.is_repeatable:
            remedy = "look whether it was done, and look for a cache or proxy"
        request = f"{question.method} {question.path}"
        super().__init__(f"the answer to {request} belongs to another request: {remedy}")
        self.question = question


class AddressedQuestion(NamedTuple):
    """One attempt: a question, the URL of the controller to ask, and the id of the request."""

    url: str
    question: Question[Any]
    request_id: str

    def check(self, reply: Reply) -> None:
        """Raise `ForeignAnswer` if the reply has the id of another request."""
        answered_id = reply.headers.get(REQUEST_HEADER, self.request_id)
        if answered_id != self.request_id:
            raise ForeignAnswer(self.question)


def stream_path(stream: str, *parts: str) -> str:
    return "/".join((STREAMS_PATH, validate_name("stream", stream), *parts))


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer, with its headers' names in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def read(self, question: Question[Answer]) -> Answer:
        """Return the answer to a question, or raise the controller's problem.

        Raises `UnexpectedAnswer` if the answer is not a controller's, and `ForeignAnswer` if it has
        no id and cannot be the answer to this question.
        """
        self.check(question.stream)
        content = self.content if self.status != NO_CONTENT else b"{}"
        kind: Any = question.answer
        try:
            answer: Answer = build_decoder(kind).decode(content)
        except DECODE_ERRORS as error:
            fault = ""
            if isinstance(error, ValidationError | Rejected):
                fault = str(error)
            raise self.build_error(fault) from error
        if REQUEST_HEADER not in self.headers and not question.can_have(answer):
            raise ForeignAnswer(question)
        return answer

    def check(self, stream: str) -> None:
        """Raise the controller's problem, if the answer is one."""
        if self.status in SUCCESS_STATUSES:
            return
        try:
            error = error_of(
                self.status,
                _parse_object(self.content),
                stream=stream,
                retry_after=self.headers.get("retry-after"),
            )
        except ValidationError as fault:
            raise self.build_error(str(fault)) from fault
        if isinstance(error, UnexpectedAnswer):
            raise self.build_error()
        raise error

    def build_error(self, fault: str = "") -> UnexpectedAnswer:
        """Return the error for a reply that no controller sent, with its `fault` if it is known."""
        content_type = self.headers.get("content-type", "no type")
        location = self.headers.get("location")
        target = ""
        if location:
            target = f" to {location[:SHOWN_CHARACTERS]}"
        excerpt = (
            f"{content_type}{target}: "
            f"{self.content[:SHOWN_CHARACTERS].decode('utf-8', 'replace')!r}"
        )
        if fault:
            excerpt = f"{fault}: {excerpt}"
        facts = f"status {self.status}, {excerpt}"
        sentence = f"no answer of a controller: {facts}; check the URL and its proxies"
        return UnexpectedAnswer(sentence, fault)


class IncomingReply:
    """An answer whose body is arriving: uncompressed, and at most `MOST_BYTES`."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self._status = status
        self._headers = headers
        self._parts = list[bytes]()
        self._size = 0
        encoding = headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise self.reply().build_error(
                f"the answer is compressed ({encoding[:SHOWN_CHARACTERS]!r})"
            )

    def add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MOST_BYTES:
            self._parts = self._parts[:1]
            raise self.reply().build_error(f"the answer is over {MOST_BYTES} bytes")
        self._parts.append(part)

    def reply(self) -> Reply:
        return Reply(self._status, self._headers, b"".join(self._parts))


_NOT_HTTP = "if this repeats, correct the URL: the port is of a Kafka broker, or needs https://"
_NOT_STARTED = f"start a controller there (`{name_program()} serve`), or correct the URL"
_NO_TLS = "the port does not use TLS"
_USE_HTTP = "use http://, or correct the port in the URL"
_EXPLANATIONS = (
    ("CERTIFICATE_VERIFY", "", "set SSL_CERT_FILE to the certificate of its authority"),
    ("[SSL", _NO_TLS, _USE_HTTP),
    ("TLS/SSL connection", _NO_TLS, _USE_HTTP),
    ("[Errno -", "", "correct the name of the host in the URL"),
    ("illegal status line", "the answer is not HTTP", _NOT_HTTP),
    ("disconnected", "", _NOT_HTTP),
    ("reset by peer", "", _NOT_HTTP),
    ("[Errno", "", _NOT_STARTED),
    ("All connection attempts failed", "", _NOT_STARTED),
)
"""Words in an error, the fact if the error does not state it, and the remedy."""


def build_unreachable(attempt: AddressedQuestion, error: Exception) -> Unreachable:
    place = attempt.url + attempt.question.path
    message = str(error) or type(error).__name__
    if message.startswith("["):
        explanation = message.partition("] ")[2].partition(" (_ssl")[0]
    else:
        explanation = message
    for marker, fact, remedy in _EXPLANATIONS:
        if marker in message:
            explanation = f"{fact or explanation.rstrip('.')}; {remedy}"
            break
    return Unreachable(f"no answer from {place}: {explanation}")


def ask(
    controllers: Controllers, question: Question[Answer]
) -> Generator[AddressedQuestion, Reply, Answer]:
    return ask_in_turn(controllers, lambda: question, lambda reply: reply.read(question))


def ask_in_turn(
    controllers: Controllers,
    make_question: Callable[[], Question[Any]],
    read_reply: Callable[[Reply], Result],
) -> Generator[AddressedQuestion, Reply, Result]:
    """Ask each controller until one answers, or raise the last `Unreachable`.

    It asks a controller again if its answer belongs to another request. Such an answer to a
    request that must not be repeated is raised at once.
    """
    failure = Unreachable("no controller was asked")
    for _ in controllers.urls:
        url = controllers.current
        try:
            return (yield from _ask_current(controllers, make_question(), read_reply))
        except Unreachable as error:
            if isinstance(error, ForeignAnswer) and not error.question.is_repeatable:
                raise
            failure = error
            controllers.pass_over(url)
    raise failure


def _ask_current(
    controllers: Controllers, question: Question[Any], read_reply: Callable[[Reply], Result]
) -> Generator[AddressedQuestion, Reply, Result]:
    """Ask until the answer belongs to the question.

    Each attempt has the same body. So notes keep their `sequence`, and their late rows count once.
    """
    url = controllers.current
    attempt_count = MOST_ATTEMPTS if question.is_repeatable else 1
    for _ in range(attempt_count):
        attempt = AddressedQuestion(url, question, secrets.token_hex(REQUEST_ID_BYTES))
        reply = yield attempt
        try:
            attempt.check(reply)
            controllers.prefer(reply.headers.get(OWNER_HEADER))
            return read_reply(reply)
        except ForeignAnswer:
            continue
    raise ForeignAnswer(question)


def run(
    routine: Generator[Effect, Outcome, Result], perform: Callable[[Effect], Outcome]
) -> Result:
    """Run a generator to its end. Exceptions of `perform` are raised in the generator."""

    async def perform_at_once(effect: Effect) -> Outcome:
        return perform(effect)

    try:
        # it awaits nothing, so this runs it to its end
        run_async(routine, perform_at_once).send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    raise AssertionError("the routine was suspended")


async def run_async(
    routine: Generator[Effect, Outcome, Result], perform: Callable[[Effect], Awaitable[Outcome]]
) -> Result:
    try:
        effect = next(routine)
        while True:
            try:
                outcome = await perform(effect)
            except Exception as error:  # noqa: BLE001 - the generator handles it
                effect = routine.throw(error)
            else:
                effect = routine.send(outcome)
    except StopIteration as end:
        result: Result = end.value
        return result


def _parse_object(content: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
