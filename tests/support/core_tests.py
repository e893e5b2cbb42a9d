"""Which tests are of the core, so that they pass without the folder `noted_time_extensions`."""

from __future__ import annotations

PACKAGES = (
    *("noted_time", "controller", "writer_client", "reader_client", "spark_integration"),
    *("noted_time_cli", "tests"),
)
"""The folders of the core's tests and of the examples in its docstrings."""

WITH_EXTENSIONS = {
    "tests/airflow": "the provider for Airflow also waits for tables",
    "tests/demo": "the demonstration draws costs of delays and writes tables",
    "tests/stores/test_demo.py": "likewise",
    "tests/tooling": "extensions are found, shipped, documented and tried",
}
"""The tests that use extensions, each with its subject."""
