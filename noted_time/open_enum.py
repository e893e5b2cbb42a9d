"""Names in answers that a newer controller may add to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

__all__ = ["OpenEnum", "list_names"]

if TYPE_CHECKING:
    from typing import Literal as OpenEnum
else:

    class OpenEnum:
        """A `Literal` whose JSON may be any string.

        >>> list_names(OpenEnum["live", OpenEnum["idle", "finished"]])
        ['live', 'idle', 'finished']
        """

        def __class_getitem__(cls, names: Any) -> Any:  # noqa: ANN401 - as in `Literal`
            kinds = names if isinstance(names, tuple) else (names,)
            all_names = [name for kind in kinds for name in list_names(kind)]
            return Annotated[str, Meta(extra_json_schema={"type": "string", "enum": all_names})]


def list_names(kind: Any) -> list[Any]:  # noqa: ANN401 - a name or an `OpenEnum`
    return [kind] if isinstance(kind, str) else kind.__metadata__[0].extra_json_schema["enum"]
