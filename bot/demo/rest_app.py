"""The App itself: what it is, where it is installed, its tokens."""

from __future__ import annotations

import secrets

from bot.demo import manifests
from bot.demo.calls import Answer, Call, Operations, Refused
from bot.demo.state import LEVELS


def get_app(call: Call) -> Answer:
    return Answer(body=call.shapes.app())


def get_repository_installation(call: Call) -> Answer:
    repository = call.world.repositories.get(f"{call.variables['owner']}/{call.variables['repo']}")
    if repository is None or repository.installation_id is None:
        raise Refused(404, "Not Found")
    return Answer(body=call.shapes.installation(call.world.installations[repository.installation_id]))


def create_token(call: Call) -> Answer:
    number = int(call.variables["installation_id"])
    installation = call.world.installations.get(number)
    if installation is None:
        raise Refused(404, "Not Found")
    if installation.suspended_at is not None:
        raise Refused(403, "This installation has been suspended")
    asked = call.body or {}
    permissions = asked.get("permissions", call.world.permissions)
    for name, level in permissions.items():
        held = call.world.permissions.get(name)
        if held is None or LEVELS.index(held) < LEVELS.index(level):
            raise Refused(422, "The permissions requested are not granted to this installation.")
    mine = [known for known in call.world.repositories.values() if known.installation_id == number]
    chosen: tuple[int, ...] | None = None
    if "repositories" in asked or "repository_ids" in asked:
        ids = {known.name: known.id for known in mine}
        wanted = [ids.get(name) for name in asked.get("repositories", ())]
        wanted += [each if each in ids.values() else None for each in asked.get("repository_ids", ())]
        chosen = tuple(each for each in wanted if each is not None)
        if len(chosen) != len(wanted):
            raise Refused(422, "There is at least one repository that does not exist or is not accessible.")
    token = call.world.mint(number, {"metadata": "read", **permissions}, chosen)
    return Answer(status=201, body=call.shapes.token(token))


def revoke_token(call: Call) -> Answer:
    assert call.token is not None
    call.token.revoked = True
    return Answer(status=204)


def create_from_manifest(call: Call) -> Answer:
    """The App's credentials, this once; its webhooks go where the manifest says."""
    manifest = manifests.convert(call.world, call.variables["code"])
    if manifest is None:
        raise Refused(404, "Not Found")
    call.webhooks.url = manifest["hook_attributes"]["url"]
    app = call.world.app
    secret = {"webhook_secret": app.webhook_secret, "pem": app.private_key}
    client = {"client_id": f"Iv1.{app.app_id:016x}", "client_secret": secrets.token_hex(20)}
    return Answer(status=201, body={**call.shapes.app(), "name": manifest["name"], **client, **secret})


OPERATIONS: Operations = {
    "apps/get-authenticated": ("app", get_app),
    "apps/create-from-manifest": ("anybody", create_from_manifest),
    "apps/get-repo-installation": ("app", get_repository_installation),
    "apps/create-installation-access-token": ("app", create_token),
    "apps/revoke-installation-access-token": ("token", revoke_token),
}
