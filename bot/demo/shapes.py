"""The JSON that GitHub gives for what it remembers, in calls and in webhooks alike."""

from __future__ import annotations

from dataclasses import dataclass

from bot.demo.shapes_base import Object
from bot.demo.shapes_checks import Checks
from bot.demo.shapes_git import Git
from bot.demo.shapes_reviews import Reviews

__all__ = ["Object", "Shapes"]


@dataclass(frozen=True, kw_only=True)
class Shapes(Git, Reviews, Checks):
    """Every form there is here."""
