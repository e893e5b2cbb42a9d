"""How the modules of the project depend on each other."""

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
