"""A door for people: what they do on the pages of the real GitHub, over HTTP from another process."""

from __future__ import annotations

import inspect
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse

from bot.demo.reviews import Inline
from bot.domain.errors import UserError

PATH = "/_door/"
"""No account can be called that."""
COOKIE = "user_session"
BODY_LIMIT = 1024 * 1024
ACTIONS = frozenset(
    {
        "archive_repository",
        "assign",
        "ci",
        "close_issue",
        "close_pull",
        "comment",
        "commit",
        "create_branch",
        "delete_branch",
        "delete_comment",
        "delete_issue",
        "delete_repository",
        "edit_comment",
        "fail",
        "grant",
        "label",
        "limit_content",
        "limit_primary",
        "lock",
        "merge_pull",
        "open_issue",
        "protect",
        "redeliver",
        "rename_repository",
        "reopen",
        "reply",
        "review",
        "suspend",
        "transfer_issue",
        "transfer_repository",
        "uninstall",
        "unlabel",
        "unsuspend",
    }
)
"""What can be done: the methods of `LocalGitHub`, by their names."""
TOLD = ("id", "number", "guid", "status", "error")
"""What is said of that which a method gives, where it has it."""


class Door:
    """`GET SECRET` signs a browser in, `GET SECRET/OWNER/NAME` shows a repository, `POST SECRET/METHOD` does what the
    method does, its arguments a JSON object. Other users of the machine, and pages in a browser, do not know the
    secret."""

    def __init__(self, github: object, look: Callable[[str], Mapping[str, Any]]) -> None:
        self.secret = secrets.token_urlsafe(24)
        self._github = github
        self._look = look

    def is_known(self, request: Request) -> bool:
        """Whether it is a browser that signed in."""
        return secrets.compare_digest(request.cookies.get(COOKIE, "").encode(), self.secret.encode())

    async def answer(self, request: Request) -> JSONResponse:
        given, _, rest = request.url.path.removeprefix(PATH).partition("/")
        if not secrets.compare_digest(given.encode(), self.secret.encode()):
            return _problem(404, "Not Found")
        try:
            if request.method == "GET" and not rest:
                return self._sign_in()
            if request.method == "GET":
                return JSONResponse(self._look(rest))
            if request.method != "POST" or rest not in ACTIONS:
                return _problem(404, f"{rest} can't be done here.")
            return JSONResponse(await _do(getattr(self._github, rest), await request.body()))
        except KeyError as exc:
            return _problem(404, f"There is no {exc.args[0]}.")
        except (AssertionError, AttributeError, TypeError, ValueError, UserError) as exc:
            return _problem(422, str(exc))

    def _sign_in(self) -> JSONResponse:
        answer = JSONResponse({"actions": sorted(ACTIONS)})
        answer.set_cookie(COOKIE, self.secret, httponly=True, samesite="lax")
        return answer


def _problem(status: int, message: str) -> JSONResponse:
    return JSONResponse({"message": message}, status)


async def _do(method: Callable[..., Any], content: bytes) -> Mapping[str, Any]:
    if len(content) > BODY_LIMIT:
        raise ValueError("The arguments are too long.")
    arguments = dict(json.loads(content or b"{}"))
    if "comments" in arguments:
        arguments["comments"] = [Inline(**each) for each in arguments["comments"]]
    if "files" in arguments:
        arguments["files"] = {path: text.encode() for path, text in arguments["files"].items()}
    result = method(**arguments)
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, str):
        return {"sha": result}
    told = {name: getattr(result, name) for name in TOLD if hasattr(result, name)}
    return {**told, "comments": [each.id for each in result.comments]} if hasattr(result, "comments") else told
