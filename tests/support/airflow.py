"""A real Airflow over SQLite: four processes on this machine, called by REST."""

import json
import os
import secrets
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import httpx

from noted_time.client import Json
from tests.support.processes import ROOT
from tools.trials.calls import HTTP
from tools.trials.daemons import Daemon
from tools.trials.ports import free_port
from tools.trials.waiting import PATIENCE_S, wait_until

PROJECTS = (ROOT, ROOT / "integrations" / "airflow")
OURS = ("AIRFLOW", "NOTED_TIME_", "PYTHON")
"""Prefixes of variables that an Airflow under test does not inherit."""


def install(directory: Path) -> None:
    """Build the project and its provider, and install both into the directory."""
    wheels = directory.with_name("wheels")
    for project in PROJECTS:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
        subprocess.run(build, cwd=project, check=True, capture_output=True)
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    target = ["--target", str(directory), *(str(wheel) for wheel in wheels.glob("*.whl"))]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *target], check=True)


LOCKED = ("database is locked", "AlreadyRunningBackfill")


class Airflow:
    """An Airflow with its home in a directory; `dags` is the directory of its DAGs.

    A block runs the API server, the scheduler with local workers, the processor of DAGs, and the
    triggerer.
    """

    def __init__(self, programs: Path, home: Path, **variables: str) -> None:
        """Install the provider and make the database; all processes get the `variables`."""
        self._programs = programs
        self._home = home
        self.dags = home / "dags"
        self.dags.mkdir(parents=True)
        install(home / "installed")
        self.port = free_port()
        self._url = f"http://127.0.0.1:{self.port}"
        self._environment = self._settings() | variables
        self._processes = ExitStack()
        self._admin: dict[str, str] = {}
        self.command("db", "migrate")

    def _settings(self) -> dict[str, str]:
        given = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        sections: dict[str, dict[str, object]] = {
            "core": {
                "load_examples": False,
                "dags_folder": self.dags,
                "executor": "LocalExecutor",
                "parallelism": 2,
                "dags_are_paused_at_creation": False,
                "default_task_retries": 2,  # a task whose report met a locked SQLite runs again
                "default_task_retry_delay": 1,
                "test_connection": "Enabled",
                "simple_auth_manager_all_admins": True,
                "execution_api_server_url": f"{self._url}/execution/",
            },
            "database": {
                # commands and the scheduler write at the same time, so they wait for each other
                "sql_alchemy_conn": f"sqlite:///{self._home / 'airflow.db'}?timeout=60"
            },
            "api": {"base_url": self._url, "secret_key": secrets.token_hex(32)},
            "api_auth": {"jwt_secret": secrets.token_hex(32)},
            "scheduler": {"scheduler_idle_sleep_time": 0.3},
            "usage_data_collection": {"enabled": False},
        }
        options = {}
        for section, values in sections.items():
            for name, value in values.items():
                options[f"AIRFLOW__{section}__{name}".upper()] = str(value)
        ours = Path(sys.executable).parent  # which has the command `noted-time`
        path = os.pathsep.join([str(self._programs), str(ours), os.environ["PATH"]])
        own_variables = {
            "AIRFLOW_HOME": str(self._home),
            "PYTHONPATH": str(self._home / "installed"),
        }
        return given | options | own_variables | {"PATH": path, "DO_NOT_TRACK": "1"}

    def command(self, *words: str) -> str:
        """Run a command of `airflow`, which must succeed, and return its output."""
        return self.run(str(self._programs / "airflow"), *words)

    def run(self, *words: str, **variables: str) -> str:
        process = subprocess.run(
            words,
            env=self._environment | variables,
            cwd=self._home,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE_S,  # a script may call `airflow` several times
            check=False,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout + process.stderr

    def run_until_unlocked(self, *words: str, **variables: str) -> None:
        """Run a program again while it meets a locked SQLite, or a backfill that this left behind.

        The scheduler ends such a backfill minutes later.
        """

        def is_run() -> bool:
            try:
                self.run(*words, **variables)
            except AssertionError as error:
                if any(reason in str(error) for reason in LOCKED):
                    return False
                raise
            return True

        wait_until(is_run)

    def __enter__(self) -> Self:
        server_words = [
            "api-server",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--workers",
            "1",
        ]
        quiet = "--skip-serve-logs"
        for words in (server_words, ["scheduler", quiet], ["dag-processor"], ["triggerer", quiet]):
            command = [str(self._programs / "airflow"), *words]
            log = self._home / f"{words[0]}.log"
            process = Daemon(command, log, self._environment, cwd=self._home)
            self._processes.enter_context(process)  # its workers end with it
        wait_until(self._answers)
        token = HTTP.get(f"{self._url}/auth/token").json()["access_token"]
        self._admin = {"authorization": f"Bearer {token}"}
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    def _answers(self) -> bool:
        try:
            return HTTP.get(f"{self._url}/api/v2/version").is_success
        except httpx.TransportError:
            return False

    def call(self, method: str, path: str, body: object = None) -> Json:
        """Call the REST API, which must succeed, and return the answer's body."""
        answer = HTTP.request(method, f"{self._url}/api/v2{path}", json=body, headers=self._admin)
        assert answer.is_success, answer.text
        return dict(answer.json())

    def knows(self, dag: str) -> bool:
        """Return whether the DAG was read; raises if a file cannot be read."""
        errors = self.call("GET", "/importErrors")["import_errors"]
        assert errors == []
        path = f"{self._url}/api/v2/dags/{dag}"
        return HTTP.get(path, headers=self._admin).is_success

    def wait_for_dag(self, dag: str) -> None:
        wait_until(lambda: self.knows(dag))

    def begin(self, dag: str, time: str) -> None:
        self.wait_for_dag(dag)
        times = dict.fromkeys(("logical_date", "data_interval_start", "data_interval_end"), time)
        self.call("POST", f"/dags/{dag}/dagRuns", {"dag_run_id": "run", **times})

    def begin_by_hand(self, dag: str, run_after: str) -> None:
        """Begin a run without a logical date, so without a data interval."""
        self.wait_for_dag(dag)
        times = {"logical_date": None, "run_after": run_after}
        self.call("POST", f"/dags/{dag}/dagRuns", {"dag_run_id": "run", **times})

    def unpause(self, dag: str) -> None:
        self.wait_for_dag(dag)
        self.call("PATCH", f"/dags/{dag}", {"is_paused": False})

    def list_tries(self, dag: str, task: str) -> list[str]:
        """Return the logical date, the state and the number of tries of a task in each run."""
        path = f"/dags/{dag}/dagRuns/~/taskInstances?task_id={task}"
        instances = self.call("GET", path)["task_instances"]
        return sorted(
            f"{instance['logical_date']} {instance['state']} {instance['try_number']}"
            for instance in instances
        )

    def tasks(self, dag: str, field: str = "state") -> Json:
        instances = self.call("GET", f"/dags/{dag}/dagRuns/run/taskInstances")["task_instances"]
        return {instance["task_id"]: instance[field] for instance in instances}

    def is_deferred(self, dag: str) -> bool:
        """Return whether the scheduler knows that a worker has deferred the task.

        If it learns this after the task runs again, it takes the task for lost and retries.
        """
        event = (
            f"executor event with state success for task instance TaskInstanceKey(dag_id='{dag}'"
        )
        return event in (self._home / "scheduler.log").read_text()

    def log(self, dag: str) -> str:
        number = self.tasks(dag, "try_number")["complete"]
        path = f"/dags/{dag}/dagRuns/run/taskInstances/complete/logs/{number}"
        return json.dumps(self.call("GET", path)["content"])

    def result(self, dag: str, task: str) -> object:
        path = f"/dags/{dag}/dagRuns/run/taskInstances/{task}/xcomEntries/return_value"
        return self.call("GET", path)["value"]
