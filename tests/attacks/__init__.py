"""Attacks on the bot, tried from end to end."""

import pytest

STORIES = ("tools", "code", "gate", "words", "submodules", "breakout", "limits")

pytest.register_assert_rewrite("tests.attacks.scene", *(f"tests.attacks.{name}" for name in STORIES))
