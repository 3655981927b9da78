"""What other programs' checks say of a commit."""

from __future__ import annotations

from bot.github.calls import Calls


class Ci(Calls):
    """The part of a repository's calls that reads checks."""
