"""What the doctor says of the App, beside what it is registered with."""

from __future__ import annotations

from pathlib import Path

import yaml

from bot import doctor
from bot.demo.github import MANIFEST, LocalGitHub
from tests.stories.harness import settings_for

APP = yaml.safe_load((Path(__file__).parents[2] / "app.yml").read_text())


async def test_what_an_app_lacks_is_named_and_what_it_can_do_without_is_a_warning(tmp_path: Path) -> None:
    less = {name: level for name, level in MANIFEST.items() if name not in ("checks", "issues")} | {"checks": "read"}
    async with LocalGitHub(tmp_path / "github", permissions=less) as github:
        settings = settings_for(github, tmp_path, tmp_path / "script")
        found = {each.name: each for each in await doctor.examine(settings)}["github"]
        assert not found.ok
        assert found.detail.endswith("it lacks permission issues: write, permission checks: write")
        assert "app.yml" in found.fix
        github.permit("issues", "write")
        warned = {each.name: each for each in await doctor.examine(settings)}["github"]
        assert warned.ok
        assert warned.fix
        stranger = settings.model_copy(update={"github_app_id": 77})
        unknown = {each.name: each for each in await doctor.examine(stranger)}["github"]
        assert not unknown.ok
        assert "GITHUB_PRIVATE_KEY belong together" in unknown.fix


def test_app_yml_asks_for_what_the_doctor_looks_for() -> None:
    assert APP["default_permissions"] == doctor.PERMISSIONS | doctor.WISHES
    assert sorted(APP["default_events"]) == sorted(doctor.EVENTS)
