"""A writer program over plain HTTP, as docs/reference/protocol.md describes it.

`--fault NAME` breaks one rule of the protocol, to show that the conformance runner finds it.
"""

import http.client
import json
import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

REPEATED = (408, 425, 429, 500, 502, 503, 504)
FIRST_S = 0.1
CAP_S = 5.0
ANSWER_S = 10.0
FAULT = sys.argv[2] if sys.argv[1:2] == ["--fault"] else ""
GIVE_UP_S = float(os.environ.get("NOTED_TIME_GIVE_UP_S", "30"))

Answer = dict[str, Any]


class HttpWriter:
    """One writer, whose log is a counter in each of two segments."""

    def __init__(self) -> None:
        self._url = urlsplit(os.environ["NOTED_TIME_URL"])
        self._path = f"/v1/streams/{os.environ['NOTED_TIME_STREAM']}/notes"
        self._ends = {"0": 0, "1": 0}
        self._noted: dict[str, int] = {}
        self._sequence = 0
        self._begin_session()

    def answer(self, command: str, value: str) -> Answer:
        """Perform one command."""
        if command in ("write", "ends"):
            return {"answer": "ok", "position": self._count(command, value)}
        if command == "close":
            return {"answer": "accepted"}
        if command == "join":
            self._begin_session()
        if self._is_fenced:
            return {"answer": "fenced"}
        if FAULT == "acknowledges early" or (FAULT, command) == ("leaves in silence", "leave"):
            return {"answer": "accepted"}
        return self._send(self._build_note(command, value))

    def _count(self, command: str, value: str) -> dict[str, int]:
        counts = dict(zip(self._ends, map(int, value.split()), strict=True))
        before = dict.fromkeys(self._ends, 0) if command == "ends" else self._ends
        counted_ends = {segment: before[segment] + n for segment, n in counts.items()}
        if FAULT != "looks up no ends" or command == "write":
            self._ends = counted_ends
        return counted_ends

    def _begin_session(self) -> None:
        self._session = uuid.uuid4().hex
        self._is_first = True
        self._is_fenced = False

    def _build_note(self, command: str, value: str) -> Answer:
        note: Answer = {"writer": os.environ["NOTED_TIME_WRITER"], "session": self._session}
        if (self._is_first and FAULT != "never takes over") or FAULT == "takes the name back":
            note["takes_over"] = True
        if command != "join" or FAULT == "joins with its position":
            extra = FAULT == "counts too far"
            note["position"] = {segment: end + extra for segment, end in self._ends.items()}
        if FAULT == "notes changed segments alone" and command != "join":
            note["position"] = dict(self._ends.items() - self._noted.items())
            self._noted = self._ends
        if command == "note":
            note["time"] = int(value)
        if command in ("idle", "leave", "finish"):
            note["state"] = "finished" if command == "finish" else "idle"
            if FAULT == "leaves without its events":
                del note["position"]
        return note

    def _send(self, note: Answer) -> Answer:
        """Send a note until its answer is final, or `GIVE_UP_S` have passed."""
        until = time.monotonic() + GIVE_UP_S
        pause_s = FIRST_S
        self._number(note)
        while True:
            if FAULT == "new session for each request":
                note |= {"session": uuid.uuid4().hex, "takes_over": True}
            status, after_s, body = self._post(note)
            if FAULT == "never repeats" and status != 200:
                return {"answer": "refused", "code": "unavailable"}
            if status not in (0, *REPEATED):
                return self._read(note, body)
            if FAULT == "repeats at once":
                after_s = 0
                pause_s = 0.01
            if FAULT == "ignores Retry-After":
                after_s = 0
            wait_s = after_s + pause_s * random.uniform(0.5, 1)
            if time.monotonic() + wait_s > until:
                return {"answer": "gave up"}
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, CAP_S)

    def _number(self, note: Answer) -> None:
        if FAULT != "one number for all" or not self._sequence:
            clock = 0 if FAULT == "numbers from 1" else time.time_ns() // 1000
            self._sequence = max(self._sequence + 1, clock)
        note["sequence"] = self._sequence
        if FAULT == "no numbers":
            del note["sequence"]

    def _read(self, note: Answer, body: Answer) -> Answer:
        """Return the program's answer to a final answer."""
        result: Answer = (body.get("results") or [{"status": body.get("code")}])[0]
        if result["status"] == "fenced":
            self._is_fenced = FAULT != "takes the name back"
            return {"answer": "fenced"}
        if result["status"] != "accepted":
            if FAULT == "repeats refusals":
                self._post(note)
            return {"answer": "refused", "code": result["status"]}
        self._is_first = False
        if "excluded" in result and FAULT != "hides exclusions":
            return {"answer": "excluded"}
        lower = result["lower"]
        noted_time = note.get("time")
        is_late = (
            None not in (lower, noted_time) and noted_time <= lower and FAULT != "hides late notes"
        )
        return {"answer": "accepted", **({"late": True} if is_late else {})}

    def _post(self, note: Answer) -> tuple[int, int, Answer]:
        """Return status, Retry-After and body; status 0 without an answer."""
        connection = http.client.HTTPConnection(self._url.netloc, timeout=ANSWER_S)
        headers = {"content-type": "application/json"}
        if token := os.environ.get("NOTED_TIME_TOKEN"):
            headers["authorization"] = f"Bearer {token}"
        try:
            connection.request("POST", self._path, json.dumps({"notes": [note]}), headers)
            answer = connection.getresponse()
            content = answer.read()
            after = answer.headers.get("retry-after", "")
        except (OSError, http.client.HTTPException):
            return 0, 0, {}
        finally:
            connection.close()
        try:
            body = json.loads(content)
        except ValueError:
            body = {}
        return answer.status, int(after) if after.isdigit() else 0, body


def run(answer: Callable[[str, str], Answer]) -> None:
    """Answer each command, and end like a crash at the end of the input."""
    for line in sys.stdin:
        command, _, value = line.strip().partition(" ")
        sys.stdout.write(json.dumps(answer(command, value)) + "\n")
        sys.stdout.flush()
        if command == "close":
            return
    if FAULT == "speaks after its end":
        answer("idle", "")
    os._exit(1)


if __name__ == "__main__":
    run(HttpWriter().answer)
