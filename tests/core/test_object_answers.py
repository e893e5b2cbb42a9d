"""Lists from object stores and from servers that are not object stores."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest

from noted_time import NotedTimeError, Rejected, Unreachable
from noted_time.stores import ObjectPath, objects
from noted_time.stores.objects import ObjectStore
from tests.support.loopback import Loopback, give
from tests.support.object_store import CERTIFICATES, OBJECT, SECRET

DIRECTORY = ObjectPath("s3://lake", "flights/partition=0")
PREFIX = f"{DIRECTORY.key}/"
MISSING = b"<Error><Code>NoSuchKey</Code></Error>"


class Answers(Loopback):
    """A server of the `keys` of a bucket, whose page after the last one is the first, if looping.

    A key that is missing has `status` and `body`.
    """

    def __init__(self) -> None:
        super().__init__(self._respond)
        self.keys: list[str] = []
        self.status = 404
        self.body = MISSING
        self.page = b""
        self.is_looping = False
        self.ended = threading.Event()

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        super().__exit__()

    def _respond(self, request: BaseHTTPRequestHandler) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        if "list-type" not in query:
            give(request, self.status, self.body, {"Location": "/elsewhere"})
        elif self.page == b"late":
            self.ended.wait(60)
        else:
            give(request, 200, self.page or self._list(query).encode(), {})

    def _list(self, query: Mapping[str, str]) -> str:
        prefix = query["prefix"]
        after = query.get("start-after", "")
        listed_keys = [key for key in self.keys if key.startswith(prefix) and key > after]
        contents = ""
        prefixes = set[str]()
        for key in listed_keys:
            name, slash, _ = key[len(prefix) :].partition("/")
            if "delimiter" in query and slash:
                prefixes.add(f"{prefix}{name}/")
            else:
                contents += OBJECT.format(escape(key), 1)
        for inner_prefix in prefixes:
            contents += f"<CommonPrefixes><Prefix>{escape(inner_prefix)}</Prefix></CommonPrefixes>"
        token = ""
        if self.is_looping:
            token = "<NextContinuationToken>1</NextContinuationToken>"  # noqa: S105 - of a page
        return (
            f"<ListBucketResult><IsTruncated>{str(self.is_looping).lower()}</IsTruncated>{token}"
            f"<KeyCount>0</KeyCount>{contents}</ListBucketResult>"
        )


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    with Answers() as running:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "us")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", SECRET)
        monkeypatch.setenv("AZURE_ENDPOINT", f"{running.url}/account")
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES))
        yield running


def list_segment(list_s: float = 60.0, directory: ObjectPath = DIRECTORY) -> list[str]:
    can_resume = None if directory.name == "flights" else never_resume
    listing = ObjectStore("s3://lake", list_s).watch(directory, stand_still, can_resume)
    return sorted(listing.list_now())


def never_resume(_: object) -> bool:
    return False


def stand_still() -> float:
    """Return the time of a clock that stands still."""
    return 0.0


@pytest.mark.parametrize(
    ("status", "body"), [(404, MISSING), (403, b"<Error><Code>AccessDenied</Code></Error>")]
)
def test_empty_list_of_a_store_is_empty(answers: Answers, status: int, body: bytes) -> None:
    answers.status = status
    answers.body = body

    assert list_segment() == []


@pytest.mark.parametrize("directory", [DIRECTORY, DIRECTORY.parent])
@pytest.mark.parametrize("status", [200, 302, 401, 404, 501])
def test_other_server_is_refused(answers: Answers, status: int, directory: ObjectPath) -> None:
    answers.status = status
    answers.body = b"<html/>"
    answers.page = b"<html>Sign in</html>"

    with pytest.raises(Unreachable, match="no answer of an object store: no objects are listed"):
        list_segment(directory=directory)


@pytest.mark.parametrize(
    ("url", "status", "code"),
    [
        ("s3://lake", 403, "InvalidObjectState"),
        ("abfs://lake@a.dfs.core.windows.net", 409, "BlobArchived"),
    ],
)
def test_archived_object_is_named(answers: Answers, url: str, status: int, code: str) -> None:
    """Its credentials are right, so the sentence does not ask for others."""
    answers.status = status
    answers.body = f"<Error><Code>{code}</Code></Error>".encode()

    with pytest.raises(Rejected) as error:
        ObjectStore(url).read(ObjectPath(url, "a"), 0, 8, None)

    assert str(error.value) == f"{url}/a is archived ({code}): restore it, or begin later"


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (403, Rejected, r"may not be listed and read \(ExpiredToken: The operation .*\): set AWS_"),
        (503, Unreachable, "no answer: ExpiredToken: .*503"),
    ],
)
def test_error_code_of_the_store_is_named(
    answers: Answers,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    kind: type[NotedTimeError],
    says: str,
) -> None:
    """Also of a range from the end, after which the size is asked for."""
    monkeypatch.setattr(objects, "MAX_RETRIES", 0)
    answers.status = status
    answers.body = b"<Error><Code>ExpiredToken</Code></Error>"

    with pytest.raises(kind, match=says):
        ObjectStore("s3://lake").read(ObjectPath("s3://lake", "a"), -8, 0, None)


def test_list_that_begins_again_is_refused(answers: Answers) -> None:
    answers.keys = [f"{PREFIX}{n:04}" for n in range(1000)]
    answers.is_looping = True

    with pytest.raises(Unreachable, match="partition=0: no answer: its list does not rise by page"):
        list_segment()


@pytest.mark.parametrize("directory", [DIRECTORY, DIRECTORY.parent])
def test_list_without_progress_times_out(answers: Answers, directory: ObjectPath) -> None:
    answers.page = b"late"

    with pytest.raises(Unreachable, match=r"no answer for 0\.01 s"):
        list_segment(0.01, directory)


@pytest.mark.parametrize("odd", ["/b", "../b", "./b.json", "a//b", "b/../c"])
def test_key_that_is_not_a_path_is_listed(answers: Answers, odd: str) -> None:
    names = [odd, "a+0+0000000000.parquet", "a+0+0000000009.parquet"]
    answers.keys = sorted(PREFIX + name for name in names)

    assert list_segment() == sorted(names)


def test_key_with_controls_is_refused_by_name(answers: Answers) -> None:
    answers.keys = [f"{PREFIX}a\x7fb"]

    with pytest.raises(Rejected, match=r"remove or rename the object '.*/a\\x7fb'"):
        list_segment()


def test_markers_of_directories_are_not_listed(answers: Answers) -> None:
    answers.keys = [f"{DIRECTORY.parent.key}/", PREFIX, f"{PREFIX}a"]
    segments: Iterable[str] = list_segment(directory=DIRECTORY.parent)

    assert (list_segment(), segments) == (["a"], ["partition=0"])
