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

ONLY_IMPORTED = {
    "controller": "a controller has no extensions",
    "tests/acceptance": "likewise",
    "tests/access": "likewise",
    "tests/bounds": "likewise",
    "tests/browser": "likewise",
    "tests/controller": "likewise",
    "tests/operations": "likewise",
    "tests/replicas": "likewise",
    "tests/store": "likewise",
    "tests/trials": "likewise",
    "tests/clients": "the sessions of clients look for no extension",
    "tests/core": "the rules look for no extension",
    "tests/kafka": "the clients of Kafka look for no extension",
    "tests/spark": "the queries of the core look for no extension",
    "tests/writer_client": "the clients of writers look for no extension",
}
"""Tests of the core that run no code that looks for extensions.

In the copy they are imported, but not run, because they would take half an hour.
"""
