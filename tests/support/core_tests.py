"""Which tests are of the core, so that they pass without the folder `noted_time_extensions`."""

from __future__ import annotations

FOLDERS = (
    *("noted_time", "controller", "writer_client", "reader_client", "spark_integration"),
    *("noted_time_cli", "tests"),
)
"""The core's tests, and the packages whose docstrings have examples."""

WITH_EXTENSIONS = {
    "tests/airflow": "the provider for Airflow also waits for tables",
    "tests/benchmarks": "the costs of claims and of file logs are measured, too",
    "tests/demo": "the demonstration reads file logs, and draws the costs of delays",
    "tests/pages": "pages and examples show extensions, too",
    "tests/tooling": "wheels, pages and `./run` name extensions",
}
"""The tests that need extensions, each with the reason."""

FAR_FROM_EXTENSIONS = {
    "tests/browser": "the dashboard is the controller's, which has no extensions",
    "tests/operations": "proxies and alerts are in front of the controller, likewise",
    "tests/replicas": "so are several controllers",
    "tests/trials/simulation": "likewise",
    "tests/kafka/test_connect.py": "these programs are in Java",
    "tests/kafka/test_interceptor.py": "likewise",
}
"""Tests of the core that take long and meet no code that looks for extensions.

They do not run in the copy, which would take twice as long.
"""
