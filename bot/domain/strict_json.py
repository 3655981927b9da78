"""Reads JSON that strangers wrote: one value, within bounds, in which nothing is said twice."""

from __future__ import annotations

import json
import math
from typing import Any

SIZE_LIMIT = 4 * 1024**2
DEPTH_LIMIT = 32


class NotJson(ValueError):
    """It is not taken. The message goes on after the name of what was read."""


def read(data: bytes) -> Any:
    """The value. NotJson where the bytes are too many, not UTF-8, not JSON, too deeply nested, name a key twice, or
    hold a number that is not finite."""
    if len(data) > SIZE_LIMIT:
        raise NotJson(f"is larger than {SIZE_LIMIT // 1024**2} MiB")
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant, parse_float=_number
        )
    except NotJson:
        raise
    except UnicodeDecodeError as exc:
        raise NotJson("is not UTF-8") from exc
    except RecursionError as exc:
        raise NotJson("is nested too deeply") from exc
    except ValueError as exc:
        raise NotJson("is not JSON") from exc
    _measure(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJson("names a key twice in one object")
    return found


def _constant(name: str) -> Any:
    raise NotJson(f"is not JSON: it holds {name}")


def _number(text: str) -> float:
    if not math.isfinite(found := float(text)):
        raise NotJson("holds a number that is too large")
    return found


def _measure(value: Any) -> None:
    level, depth = [value], 0
    while level:
        if depth >= DEPTH_LIMIT:
            raise NotJson("is nested too deeply")
        inside: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inside += each.values()
            elif isinstance(each, list):
                inside += each
        level, depth = inside, depth + 1
