"""What the commands that call a controller share: their options, `--json`, and lists."""

from __future__ import annotations

import inspect
import json
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.api_client import ApiClient
from controller.cli.options import DEFAULT_PORT
from controller.cli.output import ended_in_a_sentence, print_table, say
from noted_time.client import VARIABLE as TOKEN_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controller.cli.output import Columns

Json = dict[str, Any]

URL = inspect.Parameter(
    "url",
    inspect.Parameter.KEYWORD_ONLY,
    default=f"http://127.0.0.1:{DEFAULT_PORT}",
    annotation=Annotated[
        str,
        typer.Option(
            envvar="NOTED_TIME_URL",
            help="The controller to call; or several of one database, with commas between.",
        ),
    ],
)
TOKEN = inspect.Parameter(
    "token",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        typer.Option(
            envvar=TOKEN_VARIABLE,
            show_default=False,
            help="Needed once there is one: see `noted-time token`.",
        ),
    ],
)
AS_JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")],
)


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a command: the controller that it calls, and whether it prints JSON."""

    controller: ApiClient
    as_json: bool

    def prints(self, found: object) -> bool:
        """Print the answer in one line if `--json` asks for it; returns whether it does."""
        if self.as_json:
            typer.echo(json.dumps(found, ensure_ascii=False))
        return self.as_json

    def listing(  # noqa: PLR0913 - what lists differ in
        self,
        path: str,
        name: str,
        columns: Columns,
        *,
        cursor: str,
        limit: int,
        query: Json | None = None,
        rows: Callable[[Json], Iterable[Json]] = lambda item: (item,),
        option: str | None = None,
    ) -> None:
        """Print up to `limit` items of a paged list, and whether there are more.

        `rows` gives the rows of an item, and `option` continues the list at the `cursor`.
        """
        found = self.controller.rows(path, name, cursor=cursor, limit=limit, query=query or {})
        if self.prints(found):
            return
        print_table(columns, chain.from_iterable(map(rows, found[name])))
        if found["next"] is not None:
            goes_on = f" or {option} {found['next']}" if option else ""
            say(f"There are more than these {limit}: use --limit{goes_on}.")


def calls(run: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function that calls a controller, with `--url` and `--token`.

    Its first parameter is the `Call`, and then it has `--json` too, or the `ApiClient` alone if it
    prints no answer. What goes wrong is said in a sentence.
    """
    signature = inspect.signature(run, eval_str=True)
    first, *own = signature.parameters.values()
    prints = first.annotation is Call
    parameters = [*own, URL, TOKEN, *([AS_JSON] if prints else [])]

    @wraps(run)
    def called(url: str, token: str | None, *, as_json: bool = False, **given: object) -> None:
        with ended_in_a_sentence(), closing(ApiClient(url, token)) as controller:
            run(Call(controller, as_json) if prints else controller, **given)

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called
