"""Making an App from a manifest: the page that takes one, and the code that it gives."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import Request, Response

from bot.demo.state import AppCredentials
from bot.demo.world import World

PAGE = re.compile(r"(?:/organizations/[\w.-]+)?/settings/apps/new")
LIFETIME = timedelta(hours=1)


async def take(world: World, request: Request) -> Response:
    """A form with a manifest, as a person's browser sends it. Nobody is asked to confirm; the browser is sent on with
    a code."""
    if request.method != "POST":
        return Response("A manifest is sent here as a form.", 405)
    form = parse_qs((await request.body()).decode())
    try:
        manifest = json.loads(form.get("manifest", [""])[0])
        parts = (manifest["name"], manifest["url"], manifest["hook_attributes"]["url"], manifest["redirect_url"])
    except (ValueError, KeyError, TypeError):
        return Response("The manifest is no JSON with name, url, hook_attributes.url and redirect_url.", 422)
    if not all(isinstance(part, str) and part for part in parts):
        return Response("The manifest's name and addresses are texts.", 422)
    code = secrets.token_hex(20)
    world.manifests[code] = (manifest, world.clock() + LIFETIME)
    back = {"code": code, **({"state": request.query_params["state"]} if "state" in request.query_params else {})}
    joint = "&" if "?" in manifest["redirect_url"] else "?"
    return Response(status_code=302, headers={"Location": f"{manifest['redirect_url']}{joint}{urlencode(back)}"})


def convert(world: World, code: str) -> Mapping[str, Any] | None:
    """The manifest for a code that was not used and is not too old. Its App takes the place of the one there was."""
    manifest, until = world.manifests.pop(code, (None, world.clock()))
    if manifest is None or until < world.clock():
        return None
    slug = re.sub(r"[^a-z0-9]+", "-", manifest["name"].lower()).strip("-") or "app"
    world.app = credentials(app_id=world.next_id(), slug=slug)
    world.permissions = {"metadata": "read", **manifest.get("default_permissions", {})}
    world.events = list(manifest.get("default_events", ()))
    found: Mapping[str, Any] = manifest
    return found


def credentials(*, app_id: int, slug: str) -> AppCredentials:
    """A new key and a new secret."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return AppCredentials(
        app_id=app_id,
        slug=slug,
        private_key=private.decode(),
        public_key=public.decode(),
        webhook_secret=secrets.token_hex(32),
    )
