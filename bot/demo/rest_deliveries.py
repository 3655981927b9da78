"""The App's webhook deliveries: what was tried, and trying it again."""

from __future__ import annotations

from urllib.parse import urlencode

from bot.demo.calls import PAGE_LIMIT, Answer, Call, Operations, Refused
from bot.demo.sender import Delivery
from bot.demo.shapes_base import Object, when

CURSOR = "v1_"
"""Before the id of the first delivery of the next page; whoever makes one up is refused."""


def list_deliveries(call: Call) -> Answer:
    """The newest first, by cursor alone: there are no page numbers."""
    wanted = {"success": (True,), "failure": (False,)}.get(call.query.get("status", ""), (True, False))
    found = [delivery for delivery in call.webhooks.listed() if delivery.succeeded in wanted]
    if "cursor" in call.query:
        cursor = call.query["cursor"]
        number = cursor.removeprefix(CURSOR)
        if not cursor.startswith(CURSOR) or not number.isdecimal():
            raise Refused(422, "Invalid cursor")
        found = [delivery for delivery in found if delivery.id <= int(number)]
    size = min(max(int(call.query.get("per_page", 30)), 1), PAGE_LIMIT)
    headers = {}
    if len(found) > size:
        query = urlencode({**call.query, "cursor": f"{CURSOR}{found[size].id}"})
        headers["Link"] = f'<{call.shapes.api_url}{call.path}?{query}>; rel="next"'
    return Answer(body=[_short(delivery) for delivery in found[:size]], headers=headers)


def get_delivery(call: Call) -> Answer:
    delivery = _delivery(call)
    request = {"headers": dict(delivery.headers), "payload": delivery.payload}
    response = {"headers": dict(delivery.answer_headers), "payload": delivery.answer}
    return Answer(body={**_short(delivery), "request": request, "response": response})


def redeliver(call: Call) -> Answer:
    call.webhooks.send_again(_delivery(call))
    return Answer(status=202, body={})


def _delivery(call: Call) -> Delivery:
    for delivery in call.webhooks.listed():
        if delivery.id == int(call.variables["delivery_id"]):
            return delivery
    raise Refused(404, "Not Found")


def _short(delivery: Delivery) -> Object:
    status, code = delivery.verdict
    return {
        "id": delivery.id,
        "guid": delivery.guid,
        "delivered_at": when(delivery.at),
        "redelivery": delivery.redelivery,
        "duration": delivery.seconds,
        "status": status,
        "status_code": code,
        "event": delivery.event,
        "action": delivery.action,
        "installation_id": delivery.installation_id,
        "repository_id": delivery.repository_id,
        "url": "",
        "throttled_at": None,
    }


OPERATIONS: Operations = {
    "apps/list-webhook-deliveries": ("app", list_deliveries),
    "apps/get-webhook-delivery": ("app", get_delivery),
    "apps/redeliver-webhook-delivery": ("app", redeliver),
}
