"""GitHub's REST API for the calls the bot makes: who may, what happens, what is answered."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

import jwt

from bot.demo import (
    rest_actions,
    rest_app,
    rest_checks,
    rest_compare,
    rest_deliveries,
    rest_git,
    rest_issues,
    rest_pulls,
    rest_repositories,
    rest_reviews,
)
from bot.demo.calls import EITHER, Access, Answer, Call, Logged, Moved, Needs, Operations, Refused
from bot.demo.contract import Contract, Operation
from bot.demo.limits import Limits, Who
from bot.demo.shapes import Shapes
from bot.demo.state import Repository, Token
from bot.demo.webhooks import Webhooks
from bot.demo.world import World

KEPT_CALLS = 2000
_NOWHERE = "-/-"
_BY_ID = re.compile(r"/repositories/([0-9]+)(/.*)?")
JWT_LIFETIME_S = 600

OPERATIONS: Operations = {
    **rest_app.OPERATIONS,
    **rest_deliveries.OPERATIONS,
    **rest_repositories.OPERATIONS,
    **rest_issues.OPERATIONS,
    **rest_git.OPERATIONS,
    **rest_pulls.OPERATIONS,
    **rest_reviews.OPERATIONS,
    **rest_checks.OPERATIONS,
    **rest_actions.OPERATIONS,
    **rest_compare.OPERATIONS,
}
"""Every operation there is here."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A call as it came; `path` and `query` percent-encoded, the path without the API's prefix."""

    method: str
    path: str
    query: str
    authorization: str
    content: bytes
    if_none_match: str = ""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An answer that is given instead of the right one; `accepted`: what was asked for happens nevertheless."""

    answer: Answer
    accepted: bool = False


Found = tuple[Operation, dict[str, str]]


class Rest:
    """Answers calls. What breaks GitHub's own description, on either side, ends up in `violations`."""

    def __init__(self, world: World, shapes: Shapes, webhooks: Webhooks, contract: Contract) -> None:
        self.calls: deque[Logged] = deque(maxlen=KEPT_CALLS)
        self.violations: list[str] = []
        self.faults: dict[str, deque[Fault]] = {}
        """By operation, what goes wrong with its next calls."""
        self.limits = Limits(world.clock)
        self._world = world
        self._shapes = shapes
        self._webhooks = webhooks
        self._contract = contract

    def answer(self, asked: Asked) -> Answer:
        path = self._by_name(asked.path)
        found = self._contract.operation(asked.method, path)
        operation = found[0].id if found is not None else None
        who = self._who(asked.authorization)
        fault = self.faults[operation].popleft() if operation is not None and self.faults.get(operation) else None
        if fault is not None and not fault.accepted:
            answer = fault.answer
        else:
            answer = self._held(found, replace(asked, path=path), who)
        if fault is not None:
            answer = fault.answer
        elif asked.method == "GET" and answer.status == 200:
            answer = self._unless_known(answer, asked.if_none_match, who)
        self.calls.append(Logged(method=asked.method, path=asked.path, status=answer.status, operation=operation))
        return replace(answer, headers={**self.limits.headers(who), **answer.headers})

    def _held(self, found: Found | None, asked: Asked, who: Who) -> Answer:
        """The answer, held to GitHub's description."""
        try:
            answer = self._answer(found, asked, who)
        except Refused as exc:
            body = self._shapes.error(exc.status, exc.message, exc.errors)
            if isinstance(exc, Moved):
                body["url"] = exc.url
            answer = Answer(status=exc.status, body=body, headers=exc.headers)
        if found is None:
            return answer
        problems = self._contract.answer_problems(found[0], answer.status, answer.body)
        if not problems:
            return answer
        self.violations.append(f"{found[0].id} was answered wrongly: {'; '.join(problems)}")
        return Answer(status=500, body=self._shapes.error(500, "The local GitHub broke its contract."))

    def _unless_known(self, answer: Answer, known: str, who: Who) -> Answer:
        tag = f'W/"{hashlib.sha256(json.dumps(answer.body).encode()).hexdigest()}"'
        headers = {**answer.headers, "etag": tag}
        if tag not in [each.strip() for each in known.split(",")]:
            return replace(answer, headers=headers)
        self.limits.forget(who)
        return Answer(status=304, headers=headers)

    def _who(self, authorization: str) -> Who:
        """Whose calls it counts among."""
        token = self._world.live_token(authorization.partition(" ")[2].strip())
        return token.installation_id if token is not None else "the App" if authorization else "nobody"

    def _answer(self, found: Found | None, asked: Asked, who: Who) -> Answer:
        method, path, query, content = asked.method, asked.path, asked.query, asked.content
        if found is None:
            self.violations.append(f"{method} {path} is no operation that the local GitHub has")
            raise Refused(404, "Not Found")
        operation, variables = found
        access, handle = OPERATIONS[operation.id]
        self.limits.count(who, operation.id, method)
        token = self._admit(access, asked.authorization, variables)
        self._redirect(method, path, query, variables)
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        try:
            body = json.loads(content) if content else None
        except ValueError as exc:
            self.violations.append(f"{operation.id} was called with a body that is no JSON")
            raise Refused(400, "Problems parsing JSON") from exc
        problems = self._contract.request_problems(operation, variables, parameters, body)
        if problems:
            self.violations.append(f"{operation.id} was called wrongly: {'; '.join(problems)}")
            raise Refused(422, f"Invalid request. {'; '.join(problems)}")
        call = Call(
            world=self._world,
            shapes=self._shapes,
            webhooks=self._webhooks,
            method=method,
            path=path,
            variables=variables,
            query=parameters,
            body=body,
            token=token,
        )
        return handle(call)

    def _by_name(self, path: str) -> str:
        """The usual address for one that has a repository's id, as redirects have."""
        match = _BY_ID.fullmatch(path)
        if match is None:
            return path
        repository = self._world.repository(int(match[1]))
        return f"/repos/{repository.full_name if repository else _NOWHERE}{match[2] or ''}"

    def _redirect(self, method: str, path: str, query: str, variables: Mapping[str, str]) -> None:
        """Sends on who asks for a repository by a former name."""
        name = f"{variables.get('owner')}/{variables.get('repo')}"
        if name in self._world.moved and (repository := self._world.find(name)):
            rest = "/".join(path.split("/")[4:])
            url = f"{self._shapes.api_url}/repositories/{repository.id}{rest and f'/{rest}'}"
            raise Moved(f"{url}?{query}" if query else url, method)

    def _admit(self, access: Access, authorization: str, variables: Mapping[str, str]) -> Token | None:
        if access == "anybody":
            return None
        scheme, _, credential = authorization.partition(" ")
        if not credential or scheme.lower() not in ("bearer", "token"):
            raise Refused(401, "Requires authentication")
        if access == "app":
            self._check_app(credential.strip())
            return None
        token = self._world.live_token(credential.strip())
        if token is None:
            raise Refused(401, "Bad credentials")
        if isinstance(access, Needs):
            repository = self._world.find(f"{variables['owner']}/{variables['repo']}")
            if repository is None or not token.reaches(repository):
                raise Refused(404, "Not Found")
            wanted = _talk_of(repository, variables) if access.permissions == EITHER else access.permissions
            if not any(token.allows(permission, access.level) for permission in wanted):
                raise Refused(403, "Resource not accessible by integration")
            if access.level == "write" and repository.archived:
                raise Refused(403, "Repository was archived so is read-only.")
        return token

    def _check_app(self, credential: str) -> None:
        """Judged by the machine's own clock, since that is the one the callers' JWT libraries go by."""
        app = self._world.app
        try:
            claims = jwt.decode(
                credential,
                app.public_key,
                algorithms=["RS256"],
                issuer=str(app.app_id),
                options={"require": ["exp", "iat", "iss"]},
            )
        except jwt.InvalidTokenError as exc:
            raise Refused(401, "A JSON web token could not be decoded") from exc
        if claims["exp"] - time.time() > JWT_LIFETIME_S:
            raise Refused(401, "'Expiration time' claim ('exp') is too far in the future")


def _talk_of(repository: Repository, variables: Mapping[str, str]) -> tuple[str, ...]:
    """GitHub's pages say that either permission will do for a conversation; not everywhere is that so. Here it takes
    the one of its kind: whoever has that is let in by both."""
    if "comment_id" in variables:
        found = repository.comment(int(variables["comment_id"]))
        issue = found[0] if found else None
    else:
        issue = repository.issues.get(int(variables["issue_number"]))
    return ("pull_requests",) if issue is not None and issue.pull is not None else ("issues",)
