"""The parts of the product whose mutants are tried, each with its own tests."""

from __future__ import annotations

from typing import NamedTuple


class Room(NamedTuple):
    """Code, the tests that prove it, and the share of its mutants that they are to find."""

    code: tuple[str, ...]
    tests: tuple[str, ...]
    aim: float = 0.95


LOG_TESTS = "noted_time_extensions/files/tests"


def _tests(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/test_{name}.py" for name in names.split())


def _core(names: str) -> tuple[str, ...]:
    return _tests("tests/core", names)


CONTROLLER = _tests(
    "tests/controller",
    "group_commit maintenance marking metrics operator reader_groups seal streams",
)

WITH_SPARK = (
    "tests/spark/test_any_source.py::test_static_events_are_refused",
    "tests/spark/test_any_source.py::test_events_with_a_watermark_of_their_own_are_refused",
    "tests/spark/test_named_sources.py::test_sources_without_a_name_are_known_by_their_place",
)
"""Few tests, because each mutant starts another Spark."""

ROOMS = {
    "rules": Room(
        ("noted_time/rules/*",),
        (
            "noted_time/rules",
            *_core(
                "agreement bounds cost cut golden laws notes restart scaling scenarios seal "
                "soundness timeline vouching"
            ),
            "tests/controller/api/test_calls.py",
            "tests/controller/test_operator.py",
        ),
    ),
    "reading": Room(
        ("noted_time/reading/*",),
        (
            "noted_time/reading",
            *_core(
                "bounds cut following missing readers relaying trend verdict_laws vouching "
                "whole windows"
            ),
            "tests/reader_client",
            "tests/clients/test_sessions.py",
        ),
    ),
    "verdict": Room(
        ("noted_time/verdict/*",),
        (
            "noted_time/verdict",
            *_core("decision_words lineage policies scenarios verdict verdict_laws"),
            *_tests("tests/controller/api", "calls sentences"),
            "tests/cli/test_transcripts.py",
        ),
    ),
    "tables": Room(
        (
            "noted_time_extensions/tables/claim*.py",
            "noted_time_extensions/tables/committing.py",
            "noted_time_extensions/tables/pins.py",
            "noted_time_extensions/tables/table_history.py",
        ),
        ("noted_time_extensions/tables", *_core("verdict verdict_laws")),
        0.9,
    ),
    "values": Room(
        ("noted_time/values/*",),
        (
            "noted_time/values",
            *_core(
                "bounds cut missing names_and_shapes not_known notes policies roots "
                "scenarios times vouching windows"
            ),
            "tests/controller/api/test_calls.py",
            "noted_time_extensions/analyse/tests/test_spellings.py",
            "tests/cli/test_transcripts.py",
            *_tests("tests/writer_client", "delivery fencing"),
            f"{LOG_TESTS}/writer/test_log_ends.py",
            "tests/clients/test_sessions.py",
        ),
        0.9,
    ),
    "progress": Room(
        ("noted_time/progress/*",),
        (
            "noted_time/progress",
            *_core("backlog readers"),
            "tests/cli/test_transcripts.py",
            "tests/reader_client",
            "tests/clients/test_sessions.py",
        ),
        0.9,
    ),
    "aggregation": Room(
        ("controller/aggregation/*", "controller/aggregation/views/*"),
        (
            "controller/aggregation",
            *CONTROLLER,
            *_tests("tests/controller/api", "bad_notes calls routes sentences"),
            *_tests("tests/bounds", "kept_marks limits"),
        ),
    ),
    "service": Room(
        tuple(
            f"controller/service/{name}.py"
            for name in ("committer", "ownership", "clocks", "intervals")
        ),
        (
            "controller/service",
            *CONTROLLER,
            *_tests("tests/controller/api", "bad_input calls routes"),
            "tests/bounds/test_limits.py",
            "tests/replicas/forwarding",
            "tests/replicas/test_ownership.py",
        ),
        0.9,
    ),
    "leases": Room(("controller/store/leases.py",), ("tests/replicas/leases",), 0.9),
    "marks_source": Room(
        ("spark_integration/marks_source/*",),
        (
            "spark_integration/marks_source",
            *_tests("tests/spark", "ahead asking query_progress release topic_backlog"),
            "tests/spark/test_tokens.py::test_workers_are_given_no_secret",
            "tests/spark/test_tokens.py::test_planner_uses_the_secrets_of_its_query",
            *WITH_SPARK,
        ),
        0.9,
    ),
    "marks": Room(
        ("spark_integration/marks/*",),
        (
            "spark_integration/marks",
            *_tests("tests/spark", "ahead asking feed query_progress release topic_backlog"),
            f"{LOG_TESTS}/source/test_batches.py",
            *WITH_SPARK,
        ),
        0.9,
    ),
    "sending": Room(
        ("writer_client/sending/*",),
        (
            "writer_client/sending",
            *_tests(
                "tests/writer_client",
                "answers client delivery fencing notices observers outbox producer_state",
            ),
            "tests/clients/test_sessions.py",
        ),
        0.9,
    ),
}
