"""The command that fetches what Spark needs to read Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noted_time_cli.terminal.flags import command
from noted_time_cli.terminal.output import echo, say


@command
def spark_jars(
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Where they are kept; by default noted-time/spark-jars in your cache directory.",
            file_okay=False,
        ),
    ] = None,
    ivy_settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settings of Ivy, if the jars are to come from a repository of your own.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Fetch the four jars with which Spark reads Kafka, and print the value of `spark.jars`.

    PySpark does not bring them. They are 10 MB, fetched once from Maven's central repository, and
    checked against the checksums of this release. Only their paths go to standard output.

    Try it:  noted-time spark-jars --directory jars

    Submit with them:  spark-submit --jars "$(noted-time spark-jars)" hourly.py
    """
    from spark_integration.session import jars

    kept = directory or jars.default_directory()
    found = jars.fetch(jars.CONNECTOR, kept, ivy_settings=ivy_settings)
    named = "" if directory is None else f'"{kept}"'
    flag = f" --directory {named}" if named else ""
    say(f"The {len(found)} jars are in {kept}. Give them to Spark before it starts, by")
    say(f"""  spark-submit --jars "$(noted-time spark-jars{flag})" hourly.py""")
    say(f'  SparkSession.builder.config("spark.jars", spark_integration.spark_jars({named}))')
    echo(",".join(map(str, found)))
