"""The ASGI application of a controller, and its routes for health, metrics and access."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.routing import iter_route_contexts
from msgspec.structs import asdict
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic.alias_generators import to_camel
from pydantic.warnings import UnsupportedFieldAttributeWarning

from controller.api.gate.access import OPEN_PATHS, Gate
from controller.api.middleware import Middleware
from controller.api.pages import assets
from controller.api.replicas.forwarding import Forwarding
from controller.api.routes import readers, streams, views, writers
from controller.api.routes.deps import CallDep, ControllerDep, check_parameters
from controller.api.wire import problems
from controller.api.wire.bodies import BodyOf
from controller.api.wire.encoding import reply
from controller.api.wire.problems import PROBLEM_RESPONSES
from controller.api.wire.schemas import add_schemas, declare
from controller.service.controller import Controller
from controller.service.telemetry import traces
from noted_time import __version__
from noted_time.answers import AccessAnswer, ControllerAnswer, ControllersAnswer
from noted_time.values import find_zone_release

if TYPE_CHECKING:
    from starlette.types import ASGIApp

API_DESCRIPTION = """\
Watermarks that the writers vouch for: writers note time, the controller aggregates
the notes to marks, readers turn their position into a time window. Errors are RFC 9457 problems."""

# FastAPI adds and removes such a filter, which is not safe between threads.
warnings.filterwarnings("ignore", "The '.+' attribute", UnsupportedFieldAttributeWarning)

health = APIRouter(tags=["health"])


@health.get("/healthz", responses={503: PROBLEM_RESPONSES[503]})
async def check_health(controller: ControllerDep) -> Response:
    """Report that the process responds and needs no restart."""
    controller.check_alive()
    return reply({"status": "ok"})


@health.get("/readyz", responses={503: PROBLEM_RESPONSES[503]})
async def check_readiness(controller: ControllerDep) -> Response:
    """Report that the database answers and the streams are loaded."""
    await controller.check_ready()
    return reply({"status": "ready"})


@health.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={status: PROBLEM_RESPONSES[status] for status in (401, 403)},
)
async def get_metrics(controller: ControllerDep) -> Response:
    """Return the metrics in Prometheus' text format."""
    # in a thread: 1,000 streams would delay notes
    text = await asyncio.to_thread(generate_latest, controller.measure())
    return Response(text, media_type=CONTENT_TYPE_LATEST)


access_routes = APIRouter(tags=["access"])


@access_routes.get(
    "/access",
    responses=declare(AccessAnswer) | {status: PROBLEM_RESPONSES[status] for status in (401, 422)},
)
async def get_access(request: Request, call: CallDep) -> Response:
    """Return whether tokens are required, and the rights of the token that was sent."""
    grant = call.holder.grant
    answer = AccessAnswer(
        version=__version__,
        tokens=request.app.gate.is_token_required(),
        token=call.holder.token_id or None,
        administer=grant.may_administer(),
        read_all=grant.may_read_all(),
        read=grant.read.patterns,
        write=grant.write.patterns,
        writers=grant.writers.patterns,
        observe=grant.observe.patterns,
        zone_data=find_zone_release(),
    )
    return reply(answer)


@access_routes.get(
    "/controllers",
    responses=declare(ControllersAnswer)
    | {status: PROBLEM_RESPONSES[status] for status in (401, 403, 422, 503)},
)
async def list_controllers(controller: ControllerDep, *, check: bool = False) -> Response:
    """List the controllers that share the database, and the risks of the database.

    With `check`, an SQLite database is checked for damage. This takes seconds for each GB.
    """
    replicas = await controller.replicas()
    answers = [ControllerAnswer(**asdict(record), buckets=count) for record, count in replicas]
    risk = await controller.risk(check=check)
    return reply(ControllersAnswer(controllers=answers, risk=risk))


class Api(FastAPI):
    """A FastAPI app whose OpenAPI document has the schemas of the answers."""

    gate: Gate
    document: ClassVar[dict[str, Any] | None] = None  # one for all apps
    describing: ClassVar[threading.Lock] = threading.Lock()

    def openapi(self) -> dict[str, Any]:
        with Api.describing:
            if Api.document is None:
                Api.document = self._build_document()
        anonymous_schemes: list[dict[str, Any]] = [] if self.gate.is_token_required() else [{}]
        return Api.document | {"security": [{"token": []}, *anonymous_schemes]}

    def _build_document(self) -> dict[str, Any]:
        document = add_schemas(self._describe_bodies(super().openapi()))
        note = document["components"]["schemas"]["NoteBody"]
        del note["properties"]["timeout_ms"]["default"]  # means "absent"
        _mark_open_paths(document)
        for operation in chain.from_iterable(map(dict.values, document["paths"].values())):
            words = " ".join(operation["description"].split())
            operation["summary"] = words.partition(". ")[0].removesuffix(".")
        return document

    def _describe_bodies(self, document: dict[str, Any]) -> dict[str, Any]:
        for route in iter_route_contexts(self.routes):
            operations = document["paths"].get(route.path_format)
            if not operations:
                continue
            for dependency in route.dependant.dependencies:
                if isinstance(dependency.call, BodyOf):
                    for method in route.methods or ():
                        operations[method.lower()]["requestBody"] = dependency.call.describe()
        return document


def _mark_open_paths(document: dict[str, Any]) -> None:
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer", "bearerFormat": "nt_<id>_<secret>"}
    for path in OPEN_PATHS & document["paths"].keys():
        for operation in document["paths"][path].values():
            operation["security"] = []


def create_app(controller: Controller, gate: Gate | None = None) -> ASGIApp:
    """Return the app behind `gate`, which starts and closes `controller` with its lifespan.

    The default gate admits every call except from foreign web pages.
    """
    gate = gate or Gate()
    forwarding = Forwarding(controller)
    return Middleware(create_api(controller, gate, forwarding), controller, gate, forwarding)


def create_api(
    controller: Controller, gate: Gate | None = None, forwarding: Forwarding | None = None
) -> FastAPI:
    tokens = gate.tokens if gate else None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await controller.start()
        description_task = asyncio.create_task(asyncio.to_thread(api.openapi))
        try:
            async with tokens.watching() if tokens else nullcontext():
                yield
        finally:
            if forwarding:
                await forwarding.close()
            await controller.close()
            await description_task

    # no interactive pages, which load scripts from other sites
    api = Api(
        title="noted-time",
        version=__version__,
        license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        description=API_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: to_camel(route.name),
        telemetry={
            "auto_configure": traces.is_exporter_installed(),
            "metrics": False,
            "logs": False,
        },
    )
    api.gate = gate or Gate()
    api.state.controller = controller
    problems.install(api)
    for router in (access_routes, streams.router, writers.router, readers.router, views.router):
        api.include_router(router, prefix="/v1", dependencies=[Depends(check_parameters)])
    api.include_router(health)
    api.include_router(assets.router)
    return api
