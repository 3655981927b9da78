"""The logs of CI jobs, at addresses of their own: a secret is in the address, and a credential is refused."""

from __future__ import annotations

import secrets
from datetime import timedelta

from fastapi import Request, Response

from bot.demo.state import WorkflowRun
from bot.demo.world import World

PATH = "/_job-logs/"
"""No account can be called that."""
LIFETIME = timedelta(minutes=1)


def link(world: World, origin: str, run: WorkflowRun) -> str:
    """An address for this log that is good for a minute. Its host is another name of this machine, so that to clients
    it is another origin."""
    secret = secrets.token_urlsafe(24)
    world.log_links[secret] = (run, world.clock() + LIFETIME)
    return f"{origin.replace('127.0.0.1', 'localhost')}{PATH}{secret}"


def answer(world: World, request: Request) -> Response:
    """As the storage behind GitHub's links: whoever sends a credential along is refused."""
    if "authorization" in request.headers:
        return Response("InvalidAuthenticationInfo: no credential is taken here.", 400)
    run, until = world.log_links.get(request.url.path.removeprefix(PATH), (None, world.clock()))
    if run is None or until < world.clock() or request.method != "GET":
        return Response("AuthenticationFailed", 403)
    return Response(run.log, 200, media_type="text/plain; charset=utf-8")
