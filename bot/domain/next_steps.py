"""What a person can do after each end of the work."""

from __future__ import annotations

from collections.abc import Mapping

from bot.domain.episode import Code

_AFTER: Mapping[Code, tuple[str, ...]] = {
    Code.NO_CHANGE: (
        "`/coder fix …` says more of what is wrong.",
        "Close the issue if there is nothing to do.",
    ),
    Code.ANSWERED: ("`/coder fix` starts the work.", "`/coder ask …` asks on."),
    Code.CHECKS_FAILED: (
        "`/coder fix …` tells me what to mind, and I go on from this change.",
        "`/coder retry` tries again as it is.",
    ),
    Code.UNVERIFIED: (
        "Name checks that run tests under `checks` in `.github/coder.yml`, then `/coder retry`.",
        "`/coder fix …` tells me which test to write, or what to leave as it was.",
    ),
    Code.NO_PROGRESS: (
        "`/coder fix …` starts again with more detail.",
        "`/coder plan` shows first what I would do.",
    ),
    Code.MODEL_UNUSABLE: (
        "Ask the operator of this bot to look at the model's settings (`coder-bot doctor`).",
        "`/coder retry` goes on then.",
    ),
    Code.SETUP_FAILED: (
        "Mend `setup` in `.github/coder.yml`, or what it installs.",
        "`/coder retry` starts again then.",
    ),
    Code.CLONE_FAILED: (
        "`/coder retry` tries again.",
        "If it fails again, ask the operator of this bot to run `coder-bot doctor`.",
    ),
    Code.SANDBOX_LOST: (
        "`/coder retry` goes on with what was saved.",
        "If it fails again, ask the operator of this bot to run `coder-bot doctor`.",
    ),
    Code.CONFIG_INVALID: (
        "Mend `.github/coder.yml`; `coder-bot config check` names each error.",
        "`/coder retry` starts again then.",
    ),
    Code.WRITE_REFUSED: (
        "See that the App may write here, and that no rule of the repository forbids it.",
        "`/coder retry` goes on then.",
    ),
    Code.PERMISSION_DENIED: (
        "See that it may be asked for: `grants` in `.github/coder.yml`, and who may write here.",
        "`/coder retry` starts again then.",
    ),
    Code.BUDGET_EXCEEDED: (
        "Raise the limit under `limits` in `.github/coder.yml`, then `/coder retry`.",
        "Open an issue for a smaller part of it, and say `/coder fix` there.",
    ),
    Code.LIMIT_EXCEEDED: (
        "`/coder retry` goes on with a fresh allowance.",
        "Raise the limit under `limits` in `.github/coder.yml` first if it was too low.",
    ),
    Code.POLICY_REFUSED: (
        "`/coder fix …` says what to leave out.",
        "Change `commands` or `paths` in `.github/coder.yml` if it ought to be allowed, then `/coder retry`.",
    ),
    Code.STOPPED: ("`/coder retry` goes on.", "`/coder fix …` goes on in another way."),
}

_CLOSED: Mapping[str, tuple[str, ...]] = {
    "merged": (),
    "issue closed": ("Reopen the issue and say `/coder fix` to begin anew.",),
    "pull request closed": ("`/coder fix` on the issue begins anew, with a pull request of its own.",),
    "uninstalled": ("Install the App for this repository again, then say `/coder fix`.",),
}
_ELSE = ("`/coder fix` begins anew, once I can write here again.",)


def after(code: Code) -> tuple[str, ...]:
    """After an episode that ended with this code."""
    return _AFTER.get(code, ())


def after_close(reason: str | None) -> tuple[str, ...]:
    """After a task that is closed for this reason."""
    return _CLOSED.get(reason or "", _ELSE)
