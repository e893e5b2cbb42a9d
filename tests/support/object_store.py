"""An object store on loopback that serves a directory, with buckets as directories.

It lists and reads objects as S3, Google Cloud Storage and Azure's blobs do. So Spark can write a
checkpoint to a disk, and followers read it from a store.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.loopback import Loopback, give

SECRET = "c2VjcmV0LXNlY3JldA=="  # noqa: S105 - of tests only
DATE = "Sat, 21 Nov 2026 00:00:00 GMT"
OBJECT = (
    "<Contents><Key>{}</Key><Size>{}</Size><LastModified>2026-11-21T00:00:00.000Z</LastModified>"
    "</Contents>"
)
BLOB = (
    "<Blob><Name>{}</Name><Properties><Content-Length>{}</Content-Length>"
    f"<Content-Type/><Last-Modified>{DATE}</Last-Modified></Properties></Blob>"
)
CERTIFICATES = Path(__file__).parents[1] / "access" / "certificate" / "certificate.pem"


class ObjectStore(Loopback):
    """The server, and its `requests`: ``LIST bucket/prefix`` and ``GET bucket/key``.

    `fault` is a status for all answers, or 0 for none.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(self._respond)
        self.root = root
        self.requests: list[str] = []
        self.fault = 200
        self.ended = threading.Event()

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        super().__exit__()

    def _respond(self, request: BaseHTTPRequestHandler) -> None:
        status, body = self.answer(request.path)
        give(request, status, body, {"Last-Modified": DATE, "ETag": '"e"'})

    def environment(self, *, credentials: bool = True) -> Mapping[str, str]:
        """Return the variables that direct all three kinds of stores here."""
        account = self.root / "account.json"
        key = {"private_key": SECRET, "private_key_id": "", "client_email": ""}
        base = {"gcs_base_url": self.url, "disable_oauth": True, "type": "service_account"}
        account.write_text(json.dumps({**key, **base}))
        secrets = {
            "AWS_ACCESS_KEY_ID": "us",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AZURE_STORAGE_ACCOUNT_KEY": SECRET,
            "GOOGLE_SERVICE_ACCOUNT": str(account),
        }
        return {
            **(secrets if credentials else {}),
            "SSL_CERT_FILE": str(CERTIFICATES),  # required, also without encryption
            "AWS_ENDPOINT_URL": self.url,
            "AWS_METADATA_ENDPOINT": self.url,
            "AWS_REGION": "us-east-1",
            "AZURE_ENDPOINT": f"{self.url}/account",
        }

    def answer(self, target: str) -> tuple[int, bytes]:
        url = urlsplit(target)
        path = unquote(url.path).lstrip("/").removeprefix("account/")
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        is_list = "list-type" in query or query.get("comp") == "list"
        prefix = f"{path}/{query.get('prefix', '')}" if is_list else path
        self.requests.append(f"{'LIST' if is_list else 'GET'} {prefix}")
        if self.fault == 0:
            self.ended.wait(60)
        if self.fault != 200:
            return self.fault, b"<Error><Code>Fault</Code></Error>"
        place = self.root / prefix
        if not is_list:
            return (200, place.read_bytes()) if place.is_file() else (404, b"<Error/>")
        if not (self.root / path).is_dir():
            return 404, b"<Error><Code>NoSuchBucket</Code></Error>"
        return 200, "".join(
            self._listing(path, place, BLOB if "comp" in query else OBJECT)
        ).encode()

    def _listing(self, bucket: str, directory: Path, template: str) -> Iterator[str]:
        outer = "EnumerationResults" if template is BLOB else "ListBucketResult"
        yield f"<{outer}><KeyCount>0</KeyCount>"
        if template is BLOB:
            yield "<Blobs>"
        for file in sorted(directory.iterdir()) if directory.is_dir() else ():
            key = file.relative_to(self.root / bucket).as_posix()
            yield template.format(escape(key), file.stat().st_size)
        if template is BLOB:
            yield "</Blobs>"
        yield f"</{outer}>"
