"""How the modules of the project depend on each other."""

import subprocess
import sys

import grimp

PACKAGES = ("noted_time", "controller", "writer_client", "reader_client", "spark_integration")


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even for their types: each can be read with what lies below it alone."""
    first, *others = PACKAGES
    graph = grimp.build_graph(first, *others, cache_dir=None)
    circles = [
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if graph.chain_exists(importer=imported, imported=importer)
    ]

    assert circles == []


PLANNED = ("log_source", "planner", "marks_source", "marks_planner", "complete_source")
UNUSED = ("asyncio", "noted_time.rules", "reader_client.client", "writer_client.client")


def test_a_process_that_plans_loads_neither_the_rules_nor_the_clients() -> None:
    """Spark starts up to five of them for a query, and each pays for all that it imports."""
    program = "; ".join(f"import spark_integration.{each}" for each in PLANNED)
    program += f"; import sys; print([each for each in {UNUSED} if each in sys.modules])"

    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"
