"""Options of commands that read records with a registered schema."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noted_time.extending import require_extra
from noted_time_cli.extending import option, read_properties

if TYPE_CHECKING:
    from noted_time_extensions.observe.event_times import TimeOf


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOptions:
    """The schema of values that are not plain JSON."""

    schema_registry: Annotated[
        str | None,
        option(
            "URL",
            "The schema registry, for values in Avro, JSON Schema or Protobuf. Or a file with the "
            "properties of its client: url=…, basic.auth.user.info=….",
        ),
    ] = None
    message: Annotated[
        str | None, option("CLASS", "The Protobuf class of the values, `module:Class`.")
    ] = None

    def resolve_field(self, field: str) -> str | TimeOf:
        if self.schema_registry is None:
            if self.message is not None:
                raise typer.BadParameter(
                    "--message has no effect without --schema-registry: add it"
                )
            return field
        if ":" in field:
            raise typer.BadParameter(f"--schema-registry has no effect on the function {field}")
        with require_extra("--schema-registry", "registry"):
            from noted_time_extensions.observe.registry import registered_time
        if "://" in self.schema_registry:
            return registered_time(field, self.schema_registry, message=self.message)
        properties = read_properties(Path(self.schema_registry))
        return registered_time(field, properties, message=self.message)
