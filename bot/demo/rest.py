"""GitHub's REST API for the calls the bot makes: who may, what happens, what is answered."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
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
from bot.demo.calls import EITHER, Access, Answer, Call, Logged, Needs, Operations, Refused
from bot.demo.contract import Contract
from bot.demo.shapes import Shapes
from bot.demo.state import Repository, Token
from bot.demo.webhooks import Webhooks
from bot.demo.world import World

KEPT_CALLS = 2000
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


class Rest:
    """Answers calls. What breaks GitHub's own description, on either side, ends up in `violations`."""

    def __init__(self, world: World, shapes: Shapes, webhooks: Webhooks, contract: Contract) -> None:
        self.calls: deque[Logged] = deque(maxlen=KEPT_CALLS)
        self.violations: list[str] = []
        self.trouble: dict[str, deque[Answer]] = {}
        """By operation, what goes wrong with its next calls."""
        self._world = world
        self._shapes = shapes
        self._webhooks = webhooks
        self._contract = contract

    def answer(self, method: str, path: str, query: str, authorization: str, content: bytes) -> Answer:
        """`path` and `query` as they were sent, percent-encoded, without the API's prefix."""
        found = self._contract.operation(method, path)
        operation = found[0].id if found is not None else None
        if operation is not None and (waiting := self.trouble.get(operation)):
            answer = waiting.popleft()
            self.calls.append(Logged(method=method, path=path, status=answer.status, operation=operation))
            return answer
        try:
            answer = self._answer(method, path, query, authorization, content)
        except Refused as exc:
            answer = Answer(status=exc.status, body=self._shapes.error(exc.status, exc.message, exc.errors))
        if found is not None:
            problems = self._contract.answer_problems(found[0], answer.status, answer.body)
            if problems:
                self.violations.append(f"{operation} was answered wrongly: {'; '.join(problems)}")
                answer = Answer(status=500, body=self._shapes.error(500, "The local GitHub broke its contract."))
        self.calls.append(Logged(method=method, path=path, status=answer.status, operation=operation))
        return answer

    def _answer(self, method: str, path: str, query: str, authorization: str, content: bytes) -> Answer:
        found = self._contract.operation(method, path)
        if found is None:
            self.violations.append(f"{method} {path} is no operation that the local GitHub has")
            raise Refused(404, "Not Found")
        operation, variables = found
        access, handle = OPERATIONS[operation.id]
        token = self._admit(access, authorization, variables)
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
            path=path,
            variables=variables,
            query=parameters,
            body=body,
            token=token,
        )
        return handle(call)

    def _admit(self, access: Access, authorization: str, variables: Mapping[str, str]) -> Token | None:
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
            repository = self._world.repositories.get(f"{variables['owner']}/{variables['repo']}")
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
