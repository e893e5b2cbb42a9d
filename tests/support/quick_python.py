"""A Python with imported modules, which runs `-m MODULE` in a fork.

Spark starts four to six Python processes for a query, and each imports PySpark and this project.
`quick_python`, for `PYSPARK_PYTHON`, passes its arguments, directory, environment and files to a
server of forks, and ends like the fork. Otherwise it acts as the Python of the tests.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from tests.support.forks import run_module

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "spark_integration.marks_source.source",
)
READY = b"ready\n"
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
words = sys.argv[1:]
if words[:1] != ["-m"] or not words[1].startswith("pyspark."):
    os.execv({python!r}, [{python!r}, *words])
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
asked = json.dumps([words[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(asked).to_bytes(8, "big")], [0, 1, 2])
server.sendall(asked)
fork = int.from_bytes(server.recv(8, socket.MSG_WAITALL), "big") or sys.exit(1)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: os.kill(fork, number))
status = server.recv(8, socket.MSG_WAITALL)
sys.exit(int.from_bytes(status or b"1", "big"))
"""


@contextmanager
def quick_python() -> Iterator[str]:
    """Yield the path of the program."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "forks")
        program = Path(name, "python")
        program.write_text(CLIENT.format(python=sys.executable, path=str(path)))
        program.chmod(0o755)
        words = [sys.executable, "-m", "tests.support.quick_python", str(path)]
        with subprocess.Popen(
            words,
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": "0"},  # as Spark's workers have
            stdin=subprocess.PIPE,  # it ends with this process
            stdout=subprocess.PIPE,
        ) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == READY
            yield str(program)


def _serve(path: str) -> None:
    for name in (*IMPORTED, *_list_extension_sources()):
        with suppress(ImportError):  # an older Spark has fewer
            import_module(name)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, READY)
    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        asking, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _answer(asking)
        asking.close()


def _list_extension_sources() -> list[str]:
    """Return the modules of extensions that have Spark's sources."""
    files = sorted(ROOT.glob("noted_time_extensions/*/spark/*_source.py"))
    return [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]


def _answer(asking: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, _, _ = socket.recv_fds(asking, 8, 3)
    request = asking.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    fork = os.fork()
    if fork == 0:
        asking.close()
        _run(files, *json.loads(request))
    for file in (*files, 0, 1, 2):
        os.close(file)
    asking.sendall(fork.to_bytes(8, "big"))
    _, status = os.waitpid(fork, 0)
    code = os.waitstatus_to_exitcode(status)
    asking.sendall((code if code >= 0 else 128 - code).to_bytes(8, "big"))
    os._exit(0)


def _run(files: list[int], words: list[str], cwd: str, env: dict[str, str]) -> None:
    sys.modules.pop(words[0], None)  # it was imported, but is to be run
    code = 1
    try:
        run_module(words, cwd, env, files)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
