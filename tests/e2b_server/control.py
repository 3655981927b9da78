"""The control plane's HTTP: create, find, connect, pause, kill; snapshots and templates."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from tests.e2b_server.engine import EngineError
from tests.e2b_server.faults import Call, Faults, LostFiles, OtherId, Refuse, Slow
from tests.e2b_server.fleet import CPUS, DISK_MB, MEMORY_MB, Fleet, Problem, Sandbox, Template

ENVD_VERSION = "0.6.4"
DEFAULT_TIMEOUT_S = 300
OLD_DEFAULT_TIMEOUT_S = 15

PAGE = "<html><head><title>Bad Gateway</title></head><body>upstream says no</body></html>"

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]


def refusal(fault: Refuse) -> Response:
    headers = {} if fault.retry_after_s is None else {"Retry-After": str(fault.retry_after_s)}
    if fault.page:
        return HTMLResponse(PAGE, status_code=fault.status, headers=headers)
    return JSONResponse({"code": fault.status, "message": fault.message}, fault.status, headers)


class Control:
    """All endpoints, each of which can be made to fail."""

    def __init__(self, fleet: Fleet, faults: Faults, api_key: str) -> None:
        self._fleet = fleet
        self._faults = faults
        self._api_key = api_key
        one = "/sandboxes/{id}"
        self.app = Starlette(
            routes=[
                self._route("POST", "/v2/sandboxes", "create", self._create),
                self._route("POST", "/sandboxes", "create", self._create),
                self._route("GET", "/v2/sandboxes", "list", self._list),
                self._route("GET", one, "get", self._get),
                self._route("DELETE", one, "kill", self._kill),
                self._route("POST", "/v2" + one + "/connect", "connect", self._connect),
                self._route("POST", one + "/connect", "connect", self._connect),
                self._route("POST", one + "/pause", "pause", self._pause),
                self._route("POST", one + "/timeout", "timeout", self._timeout),
                self._route("PUT", one + "/network", "network", self._network),
                self._route("POST", one + "/snapshots", "snapshot", self._snapshot),
                self._route("GET", "/snapshots", "snapshots", self._snapshots),
                self._route("GET", "/templates/aliases/{id}", "alias", self._alias),
                self._route("GET", "/templates/{id}/tags", "tags", self._tags),
                self._route("DELETE", "/templates/{id}", "delete_template", self._delete_template),
            ]
        )

    def _route(self, method: str, path: str, call: Call, endpoint: Endpoint) -> Route:
        async def answer(request: Request) -> Response:
            if request.headers.get("x-api-key") != self._api_key:
                return _problem(401, "Invalid API key")
            await request.body()  # now: later there may be nobody to read it from
            fault = request.state.fault = self._faults.take(call)
            if isinstance(fault, Slow):
                await asyncio.sleep(fault.seconds)
            if isinstance(fault, Refuse) and not fault.done:
                return refusal(fault)
            try:
                response = await endpoint(request)
            except Problem as exc:
                return _problem(exc.status, exc.message)
            except (EngineError, httpx.TransportError, TimeoutError) as exc:
                return _problem(500, f"the engine failed: {exc}")
            return refusal(fault) if isinstance(fault, Refuse) else response

        return Route(path, answer, methods=[method])

    def _sandbox(self, request: Request) -> Sandbox:
        return self._fleet.find(request.path_params["id"])

    async def _create(self, request: Request) -> Response:
        body = await _body(request)
        key = request.headers.get("idempotency-key")
        if key is not None and not re.fullmatch(r"[a-z0-9-]{1,255}", key):
            raise Problem(400, "invalid idempotency key")
        default = DEFAULT_TIMEOUT_S if request.url.path.startswith("/v2") else OLD_DEFAULT_TIMEOUT_S
        sandbox = await self._fleet.create(body, timeout_s=body.get("timeout", default), key=key)
        return JSONResponse(_access(sandbox), 201)

    async def _list(self, request: Request) -> Response:
        query = request.query_params
        wanted = {unquote(name): unquote(value) for name, value in parse_qsl(query.get("metadata", ""))}
        states = query.get("state", "running,paused").split(",")
        after = dt.datetime.fromisoformat(query["startedAfter"]) if "startedAfter" in query else None
        found = [
            sandbox
            for sandbox in self._fleet.sandboxes.values()
            if sandbox.state in states
            and wanted.items() <= sandbox.metadata.items()
            and (after is None or sandbox.started > after)
            and query.get("template") in (None, sandbox.template.id, sandbox.template.name)
        ]
        found.sort(key=lambda sandbox: (sandbox.started, sandbox.id), reverse=query.get("order") != "asc")
        page, headers = _page(found, query)
        return JSONResponse([_listed(sandbox) for sandbox in page], headers=headers)

    async def _get(self, request: Request) -> Response:
        sandbox = self._sandbox(request)
        return JSONResponse(_listed(sandbox) | _detail(sandbox))

    async def _kill(self, request: Request) -> Response:
        await self._fleet.kill(self._sandbox(request))
        return Response(status_code=204)

    async def _connect(self, request: Request) -> Response:
        body, sandbox, fault = await _body(request), self._sandbox(request), request.state.fault
        timeout_s = body.get("timeout", DEFAULT_TIMEOUT_S)
        if isinstance(fault, OtherId):
            other = await self._fleet.create(sandbox.body, timeout_s=timeout_s)
            return JSONResponse(_access(other), 201)
        resumed = await self._fleet.connect(
            sandbox,
            timeout_s=timeout_s,
            memory=body.get("memory", True),
            lose_files=isinstance(fault, LostFiles),
        )
        return JSONResponse(_access(sandbox), 201 if resumed else 200)

    async def _pause(self, request: Request) -> Response:
        body = await _body(request)
        await self._fleet.pause(self._sandbox(request), memory=body.get("memory", True))
        return Response(status_code=204)

    async def _timeout(self, request: Request) -> Response:
        await self._fleet.set_timeout(self._sandbox(request), (await _body(request))["timeout"])
        return Response(status_code=204)

    async def _network(self, request: Request) -> Response:
        self._fleet.set_network(self._sandbox(request), await _body(request))
        return Response(status_code=204)

    async def _snapshot(self, request: Request) -> Response:
        body = await _body(request)
        made = await self._fleet.snapshot(
            self._sandbox(request), name=body.get("name"), memory=body.get("memory", True)
        )
        return JSONResponse(_snapshot_info(made), 201)

    async def _snapshots(self, request: Request) -> Response:
        query = request.query_params
        found = [
            known
            for known in self._fleet.templates.values()
            if known.snapshot_of
            and query.get("sandboxID") in (None, known.snapshot_of)
            and query.get("name") in (None, known.name)
        ]
        page, headers = _page(found, query)
        return JSONResponse([_snapshot_info(known) for known in page], headers=headers)

    async def _alias(self, request: Request) -> Response:
        return JSONResponse({"templateID": self._fleet.template(request.path_params["id"]).id, "public": False})

    async def _tags(self, request: Request) -> Response:
        known = self._fleet.template(request.path_params["id"])
        build = uuid.UUID(known.image.id.removeprefix("sha256:")[:32])
        return JSONResponse([{"tag": "default", "buildID": str(build), "createdAt": _time(known.created)}])

    async def _delete_template(self, request: Request) -> Response:
        await self._fleet.delete_template(self._fleet.template(request.path_params["id"]))
        return Response(status_code=204)


async def _body(request: Request) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(await request.body() or b"{}")
    return body


def _problem(status: int, message: str) -> Response:
    return JSONResponse({"code": status, "message": message}, status)


def _page(found: list[T], query: Mapping[str, str]) -> tuple[list[T], dict[str, str]]:
    start, size = int(query.get("nextToken", "0")), int(query.get("limit", "100"))
    end = start + size
    return found[start:end], {"x-next-token": str(end)} if end < len(found) else {}


def _time(moment: dt.datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _access(sandbox: Sandbox) -> dict[str, Any]:
    return {
        "templateID": sandbox.template.id,
        "alias": sandbox.template.name,
        "sandboxID": sandbox.id,
        "clientID": "local",
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": sandbox.token,
        "domain": None,
        "trafficAccessToken": None,
    }


def _listed(sandbox: Sandbox) -> dict[str, Any]:
    return {
        "templateID": sandbox.template.id,
        "alias": sandbox.template.name,
        "sandboxID": sandbox.id,
        "clientID": "local",
        "startedAt": _time(sandbox.started),
        "endAt": _time(sandbox.end),
        "cpuCount": CPUS,
        "memoryMB": MEMORY_MB,
        "diskSizeMB": DISK_MB,
        "state": sandbox.state,
        "envdVersion": ENVD_VERSION,
        "metadata": sandbox.metadata,
    }


def _detail(sandbox: Sandbox) -> dict[str, Any]:
    network = dict(sandbox.firewall.network)
    allowed = network.pop("allow_internet_access", None)
    return {
        "envdAccessToken": sandbox.token,
        "allowInternetAccess": allowed,
        "domain": None,
        "network": network,
        "lifecycle": {
            "onTimeout": "pause" if sandbox.auto_pauses else "kill",
            "autoResume": sandbox.auto_resumes,
        },
    }


def _snapshot_info(known: Template) -> dict[str, Any]:
    return {"snapshotID": f"{known.id}:default", "names": [f"{known.name}:default"]}
