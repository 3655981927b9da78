"""The public keys that receipts are checked by, at a well-known address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from bot.domain.errors import UserError

PATH = "/.well-known/coder-bot-keys.json"
MAX_AGE_S = 60
"""How long others may go on with what they have read."""

log = structlog.get_logger()


def publish(app: FastAPI, keys: Callable[[], Mapping[str, Any]]) -> None:
    """Answers with what `keys` gives, asked anew each time: a new key is there at once."""

    @app.get(PATH)
    def well_known_keys() -> JSONResponse:
        try:
            document = keys()
        except UserError as exc:
            log.error("the public keys can't be read", reason=str(exc))
            return JSONResponse({"message": "The keys can't be read now; the log says why."}, status_code=503)
        return JSONResponse(document, headers={"cache-control": f"public, max-age={MAX_AGE_S}"})
