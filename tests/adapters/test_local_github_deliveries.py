"""The App's deliveries on the local GitHub: listed, looked at, sent again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.adapters.local_github import NAME, Clock, app_jwt, call, local_github, receiving, token

PATH = "/app/hook/deliveries"


async def test_deliveries_are_listed_by_cursor_the_newest_first(tmp_path: Path) -> None:
    clock = Clock()
    async with local_github(tmp_path, clock) as github, receiving(github):
        issue = github.open_issue(NAME, title="Broken", author="reporter")
        sent = [await github.comment(NAME, issue.number, str(number), author="reporter") for number in range(5)]
        seen, query, pages = [], {"per_page": "2"}, 0
        while True:
            answer = await call(github, "GET", PATH, credential=app_jwt(github), **query)
            seen += [(item["guid"], item["status"], item["status_code"]) for item in answer.json()]
            pages += 1
            if "next" not in answer.links:
                break
            url = answer.links["next"]["url"]
            assert url.startswith(f"{github.api_url}{PATH}?")
            query = dict(pair.split("=") for pair in url.partition("?")[2].split("&"))
        assert (seen, pages) == ([(delivery.guid, "OK", 202) for delivery in reversed(sent)], 3)
        wrong = await call(github, "GET", PATH, credential=app_jwt(github), cursor="2")
        assert wrong.status_code == 422
        refused = await call(github, "GET", PATH, credential=await token(github, contents="read"))
        assert refused.status_code == 401
        clock.now += timedelta(days=3, seconds=1)
        assert (await call(github, "GET", PATH, credential=app_jwt(github))).json() == []


async def test_a_lost_delivery_is_sent_again_under_its_guid(tmp_path: Path) -> None:
    async with local_github(tmp_path) as github, receiving(github) as receiver:
        issue = github.open_issue(NAME, title="Broken", author="reporter")
        github.webhook_url = "http://127.0.0.1:9/closed"
        lost = await github.comment(NAME, issue.number, "/coder fix", author="maintainer")
        github.webhook_url, receiver.status = receiver.url, 500
        failed = await github.comment(NAME, issue.number, "hello", author="maintainer")
        receiver.status = 202
        listed = (await call(github, "GET", PATH, credential=app_jwt(github), status="failure")).json()
        assert [(item["guid"], item["status"], item["status_code"]) for item in listed] == [
            (failed.guid, "Invalid HTTP Response: 500", 500),
            (lost.guid, "failed to connect to host", 502),
        ]
        assert (listed[0]["event"], listed[0]["action"], listed[0]["redelivery"]) == (
            "issue_comment",
            "created",
            False,
        )
        one = f"{PATH}/{lost.id}"
        again = await call(github, "POST", f"{one}/attempts", credential=app_jwt(github))
        assert (again.status_code, again.json()) == (202, {})
        await github.settled()
        [newest, *_] = (await call(github, "GET", PATH, credential=app_jwt(github))).json()
        assert (newest["guid"], newest["redelivery"], newest["status"]) == (lost.guid, True, "OK")
        assert newest["id"] != lost.id
        full = (await call(github, "GET", f"{PATH}/{newest['id']}", credential=app_jwt(github))).json()
        assert full["request"]["payload"]["comment"]["body"] == "/coder fix"
        assert full["request"]["headers"]["X-GitHub-Delivery"] == lost.guid
        assert receiver.got[-1][0]["x-github-delivery"] == lost.guid
        unknown = await call(github, "POST", f"{PATH}/1/attempts", credential=app_jwt(github))
        assert unknown.status_code == 404
