"""What may not be published, what has to be approved, and what people are shown first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain import config, gate
from bot.domain.config import Config
from bot.domain.gate import BINARY_LIMIT, Finding, inspect, inspect_names, is_held, listed, needed, refused
from bot.domain.patch import Change, Mode, Patch
from bot.domain.tree import TreeEntry, blob_id
from bot.domain.verification import Passed, Unverified, judge
from tests.domain.test_verification import GOOD

RULES = config.parse(b"paths: {protected: ['migrations/**', 'db/*.sql', '*.lock']}\n")
APPROVAL = RULES.model_copy(update={"paths": RULES.paths.model_copy(update={"workflows": "approval"})})
SECRET = "hunter2-" + "hunter3"


def secrets(text: str) -> Iterable[str]:
    """Two kinds: one on a line, one over many."""
    if SECRET in text:
        yield "password"
    if "BEGIN" in text and "END" in text[text.index("BEGIN") :]:
        yield "key"
    if "doubtful" in text:
        yield "credentials in an address"


def file(path: str, content: bytes = b"x\n", mode: str = "100644") -> tuple[TreeEntry, bytes]:
    return TreeEntry(mode=mode, type="blob", sha=blob_id(content), path=path), content


def link(path: str, target: str) -> tuple[TreeEntry, bytes]:
    return file(path, target.encode(), "120000")


def put(path: str, content: bytes = b"new\n", mode: Mode = "100644") -> Change:
    return Change(path=path, mode=mode, content=content)


def point(path: str, target: str) -> Change:
    return put(path, target.encode(), "120000")


def gone(path: str) -> Change:
    return Change(path=path, mode=None)


BASE = [
    file(".github/coder.yml"),
    file(".github/workflows/ci.yml"),
    file("README.md", b"one\ntwo\n"),
    file("docs/guide.md"),
    file("src/deep/a.py"),
    file("migrations/1.sql"),
    file("run.sh", b"#!/bin/sh\n", "100755"),
]


def findings(
    *changes: Change, base: Sequence[tuple[TreeEntry, bytes]] = BASE, rules: Config = RULES, known: bool = True
) -> tuple[Finding, ...]:
    before = {entry.sha: content.decode() for entry, content in base} if known else {}
    return inspect(Patch.of(*changes), [entry for entry, _ in base], before, rules, secrets)


def told(*changes: Change, base: Sequence[tuple[TreeEntry, bytes]] = BASE) -> list[tuple[str, str, str]]:
    return [(each.action, each.kind, each.path) for each in findings(*changes, base=base)]


def test_an_ordinary_change_is_not_remarked_on() -> None:
    changes = (put("README.md"), put("src/new.py"), gone("docs/guide.md"), put("package.json"), put(".gitignore"))
    assert findings(*changes) == ()


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".GIT/config",
        "src/.git/config",
        ".git./config",
        ".git::$INDEX_ALLOCATION/config",
        "git~1/config",
        ".g\u200cit/config",
        "\uff0egit/config",
        ".github/coder.yml",
        ".GitHub/CODER.YML",
        ".github./coder.yml",
        "GITHUB~1/coder.yml",
        ".github/coder.yaml",
        ".github/CODER~1.YAM",
        ".\uff47ithub/coder.yml",
        ".github",
        "migrations/2.sql",
        "MIGRATIONS/2.sql",
        "migrations./2.sql",
        "migrations::$INDEX_ALLOCATION/2.sql",
        "\uff4digrations/2.sql",
        "m\u0131grat\u0131ons/2.sql",
    ],
)
@pytest.mark.parametrize("change", [put, gone, lambda path: point(path, "a")])
def test_what_is_protected_is_in_no_patch_in_any_spelling(path: str, change: Callable[[str], Change]) -> None:
    made = change(path)
    assert "protected" in {each.kind for each in refused(findings(made, base=[]))}
    assert "protected" in {each.kind for each in refused(inspect_names(Patch.of(made), RULES))}


def test_a_rename_of_the_folder_with_the_rules_is_refused() -> None:
    renamed = (gone(".github/coder.yml"), gone(".github/workflows/ci.yml"), put(".config/coder.yml"))
    assert ("refuse", "protected", ".github/coder.yml") in told(*renamed)
    assert ("refuse", "runs by itself", ".github/workflows/ci.yml") in told(*renamed)


def test_a_link_in_the_place_of_the_folder_with_the_rules_is_refused() -> None:
    assert ("refuse", "protected", ".github") in told(point(".github", "docs"), put("docs/coder.yml"), base=[])


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml",
        ".github/workflows/new.yaml",
        ".GITHUB/Workflows/new.yml",
        "GITHUB~1/WORKFL~1/new.yml",
        ".github/actions/setup/action.yml",
        ".gitlab-ci.yml",
        ".circleci/config.yml",
        "Jenkinsfile",
        "ci/Jenkinsfile.release",
        "azure-pipelines.yml",
        "azure-pipelines-nightly.yaml",
        ".vscode/tasks.json",
        "packages/a/.vscode/settings.json",
        ".devcontainer/devcontainer.json",
        ".devcontainer.json",
        ".idea/workspace.xml",
        ".envrc",
        ".claude/settings.json",
        ".husky/pre-commit",
    ],
)
def test_what_runs_by_itself_is_refused_or_has_to_be_approved_by_policy(path: str) -> None:
    for change in (put(path), gone(path), put(path, mode="100755")):
        assert "runs by itself" in {each.kind for each in refused(findings(change, base=[file(path)]))}
        held = findings(change, base=[file(path)], rules=APPROVAL)
        assert not refused(held)
        assert is_held(held)
    assert is_held(inspect_names(Patch.of(put(path)), APPROVAL))


@pytest.mark.parametrize(
    "path",
    [
        ".gitattributes",
        "docs/.gitattributes",
        ".github/CODEOWNERS",
        "CODEOWNERS",
        ".github/dependabot.yml",
        "renovate.json5",
        ".npmrc",
        ".yarnrc.yml",
        "pip.conf",
        ".cargo/config.toml",
        "app/.cargo/config",
        "AGENTS.md",
        "docs/CLAUDE.md",
        ".github/copilot-instructions.md",
        "tools/action.yml",
        ".pre-commit-config.yaml",
    ],
)
def test_what_changes_how_others_work_is_named(path: str) -> None:
    assert told(put(path), base=[]) == [("name", "config", path)]
    assert not is_held(findings(put(path)))


@pytest.mark.parametrize(
    "path",
    ["azure-pipelines-docs/x.md", "docs/workflows/ci.yml", ".vscode/extensions.json", "ideas.md", "my.npmrc.md"],
)
def test_what_only_looks_like_it_is_not(path: str) -> None:
    assert findings(put(path)) == ()


def test_limits_hold_for_whatever_is_to_be_published() -> None:
    small = RULES.model_copy(update={"limits": RULES.limits.model_copy(update={"files": 2, "patch": 10})})
    assert findings(put("a"), put("b"), rules=small) == ()
    for changes in ([put("a"), put("b"), put("c")], [put("a", b"12345678901")]):
        assert [each.kind for each in refused(findings(*changes, rules=small))] == ["size"]
        assert refused(inspect_names(Patch.of(*changes), small))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (f"a\nb = '{SECRET}'\n", 2),
        (f"one\ntwo\n{SECRET}", 3),
        (f"one\r\nx\r\n{SECRET}\r\n", 3),
    ],
)
def test_a_secret_in_an_added_line_is_refused_with_its_place_and_never_shown(content: str, line: int) -> None:
    for changed in ("README.md", "new.txt"):
        [found] = findings(put(changed, content.encode()))
        assert (found.action, found.kind, found.path, found.line) == ("refuse", "secret", changed, line)
        assert SECRET not in found.text
        assert "password" in found.text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nothing", []),
        ("it says [redacted] and ://[redacted]@", []),
        ("key SECRET", ["a token, a key or a password"]),
        ("db://SECRET@host", [gate.ADDRESS]),
        ("db://SECRET@host SECRET", [gate.ADDRESS, "a token, a key or a password"]),
        ("[redacted] SECRET", ["a token, a key or a password"]),
    ],
)
def test_secrets_are_what_redaction_takes_out(text: str, found: list[str]) -> None:
    assert list(gate.kinds(lambda text: text.replace("SECRET", "[redacted]"))(text)) == found


def test_characters_that_turn_text_around_are_named_with_their_line() -> None:
    [found] = findings(put("README.md", "one\nif a: \u202e # \u2066\n".encode()))
    assert (found.action, found.kind, found.line) == ("name", "turning", 2)
    base = [file("a.py", "x\u202e\n".encode())]
    assert findings(put("a.py", "x\u202e\ny\n".encode()), base=base) == ()


def test_a_secret_in_utf_16_is_seen() -> None:
    [found, _] = findings(put("a.txt", f"one\n{SECRET}\n".encode("utf-16")))
    assert (found.kind, found.line) == ("secret", 2)


def test_a_secret_over_many_lines_is_found_where_it_begins() -> None:
    text = "\n".join(["x"] * 40 + ["BEGIN", "abc", "END"] + ["y"] * 9)
    [found] = findings(put("key.pem", text.encode()))
    assert found.line == 41


def test_a_secret_that_was_there_before_is_not_the_patchs() -> None:
    base = [file("a.txt", f"one\n{SECRET}\ntwo\n".encode()), file("b.txt")]
    assert findings(put("a.txt", f"zero\n{SECRET}\r\ntwo\n".encode()), base=base) == ()
    assert findings(gone("a.txt"), put("c.txt", f"{SECRET}\n".encode()), base=base) == ()  # moved
    assert [each.kind for each in findings(put("b.txt", f"{SECRET}\n".encode()), base=base)] == ["secret"]
    assert [each.kind for each in findings(put("a.txt", f"{SECRET}\nx\n".encode()), base=base, known=False)] == [
        "secret"
    ]


def test_a_change_of_mode_adds_no_line() -> None:
    base = [file("a.txt", SECRET.encode())]
    assert [each.kind for each in findings(put("a.txt", SECRET.encode(), "100755"), base=base)] == ["mode"]


def test_what_is_as_often_an_example_is_named() -> None:
    assert told(put("a.md", b"doubtful\n")) == [("name", "secret", "a.md")]


def test_a_secret_in_a_new_files_name_is_refused_and_the_name_not_shown() -> None:
    [found] = findings(put(f"docs/{SECRET}.txt"))
    assert (found.kind, found.path) == ("secret", "docs")
    [found] = findings(put(f"{SECRET}/{SECRET}.txt"))
    assert (found.kind, found.path) == ("secret", "a new file")
    base = [file(f"docs/{SECRET}.txt")]
    assert findings(put(f"docs/{SECRET}.txt"), gone(f"docs/{SECRET}.txt"[:4] + "x"), base=base) == ()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/etc/passwd", "absolute"),
        ("~/.ssh", "absolute"),
        ("C:/x", "absolute"),
        ("..\\x", "absolute"),
        ("a\0b", "absolute"),
        ("..", "second name"),
        ("../../x", "leaves the repository"),
        ("../docs/../../x", "leaves the repository"),
        ("../out/passwd", "absolute"),
        ("../up/x", "leaves the repository"),
        ("../chain", "leaves the repository"),
        ("self", "circle"),
        ("../loop/x", "circle"),
        ("../.git", "second name"),
        ("../.git/config", "second name"),
        ("../.GIT./hooks", "second name"),
        ("../docs/../.git", "second name"),
        ("../.github", "second name"),
        ("../.github/coder.yml", "second name"),
        ("../GITHUB~1", "second name"),
        ("../src/..", "second name"),
        ("../to-github", "second name"),
        ("../migrations", "second name"),
        ("../migrations/1.sql", "second name"),
        ("../db", "second name"),
        ("../packages", "second name"),
        (".", None),
        ("../docs", None),
        ("../docs/guide.md", None),
        ("../missing/yet", None),
        ("../inside/guide.md", None),
        ("../migrations-notes", None),
        ("../src/./deep//a.py", None),
    ],
)
def test_a_link_may_only_lead_to_what_has_no_other_guard(target: str, said: str | None) -> None:
    base = [
        *BASE,
        link("out", "/etc"),
        link("up", "docs/../.."),
        link("chain", "up"),
        link("loop", "loop"),
        link("to-github", "src/../.github"),
        link("inside", "docs"),
        file("packages/a/poetry.lock"),
    ]
    if said is None:
        assert told(point("lib/self", target), base=base) == [("name", "link", "lib/self")]
        return
    # The folder that holds the link decides where it leads.
    found = [each for each in findings(point("lib/self", target), base=base) if each.kind == "link"]
    assert [(each.action, each.path) for each in found] == [("refuse", "lib/self")]
    assert said in found[0].said


def test_a_chain_of_links_through_the_patch_is_followed() -> None:
    changes = (point("a", "b"), point("b", "c/.."), point("c", "docs"), point("d", "docs/deeper/../.."))
    assert {(each.path, each.action) for each in findings(*changes)} == {
        ("a", "refuse"),
        ("b", "refuse"),
        ("c", "name"),
        ("d", "refuse"),
    }


def test_a_link_of_the_base_that_the_patch_turns_around_is_refused() -> None:
    base = [*BASE, link("lib/x", "y/../../a"), file("lib/y/a"), file("a")]
    assert told(put("b/c"), base=base) == []
    turned = (gone("lib/y/a"), point("lib/y", "../b"), put("b/c"))
    assert ("refuse", "link", "lib/x") in told(*turned, base=base)


def test_a_link_of_the_base_that_leads_elsewhere_but_to_nothing_bad_is_left_alone() -> None:
    assert told(point("b", "docs"), base=[*BASE, link("a", "b/c")]) == [("name", "link", "b")]


def test_a_link_through_one_whose_target_is_not_known_is_refused() -> None:
    found = findings(point("b", "a/x"), base=[link("a", "docs")], known=False)
    assert [each.said for each in found] == ["is a link that leads through a link whose target is not known"]


def test_what_a_link_makes_of_a_file_counts() -> None:
    base = [*BASE, link(".circleci", "ci"), file("ci/config.yml"), link("x", "/etc")]
    assert told(put("ci/config.yml"), base=base) == [("refuse", "runs by itself", "ci/config.yml")]
    new = told(point(".vscode", "editor"), put("editor/tasks.json"))
    assert ("refuse", "runs by itself", "editor/tasks.json") in new
    assert ("refuse", "runs by itself", "docs/guide.md") in told(point(".envrc", "docs/guide.md"))


def test_a_link_to_more_files_than_can_be_looked_at_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "FILES_BELOW", 2)
    base = [file(f"many/{n}") for n in range(3)]
    assert ("refuse", "link", "a") in told(point("a", "many"), base=base)


def test_a_link_that_becomes_a_file_and_one_that_only_its_target_changes_are_named() -> None:
    base = [*BASE, link("a", "docs")]
    assert told(put("a"), base=base) == [("name", "link", "a")]
    assert findings(point("a", "src"), base=base)[0].text == "`a` is a link to `src`"
    assert findings(gone("a"), base=base) == ()


def test_paths_in_each_others_way_are_refused() -> None:
    assert ("refuse", "place", "docs") in told(put("docs"))
    assert ("refuse", "place", "README.md") in told(put("README.md/a"), put("README.md"))
    assert ("refuse", "place", "README.md/a/b") in told(put("README.md/a/b"))
    assert ("refuse", "place", "lib/x.py") in told(point("lib", "docs"), put("lib/x.py"))
    assert findings(gone("README.md"), put("README.md/a")) == ()


@pytest.mark.parametrize(
    ("base", "path", "twin"),
    [
        ("README.md", "readme.MD", "readme.MD"),
        ("src/a.py", "SRC/b.py", "SRC"),
        ("e\u0301.txt", "\u00e9.txt", "\u00e9.txt"),
        ("stra\u00dfe", "STRASSE", "STRASSE"),
    ],
)
def test_two_spellings_of_one_name_are_refused(base: str, path: str, twin: str) -> None:
    assert ("refuse", "place", twin) in told(put(path), base=[file(base)])
    assert findings(gone(base), put(path), base=[file(base)]) == ()


def test_two_new_spellings_of_one_name_are_refused_and_old_ones_are_not_the_patchs() -> None:
    assert "place" in {each.kind for each in findings(put("A.py"), put("a.py"))}
    assert findings(put("A.py"), base=[file("A.py", b"1"), file("a.py", b"2")]) == ()


@pytest.mark.parametrize(
    "change", [put("vendor/lib"), put("vendor/lib/x.c"), gone("vendor/lib"), put(".gitmodules"), gone(".gitmodules")]
)
def test_submodules_are_left_alone(change: Change) -> None:
    base = [(TreeEntry(mode="160000", type="commit", sha="a" * 40, path="vendor/lib"), b""), file(".gitmodules")]
    assert "submodule" in {each.kind for each in refused(findings(change, base=base))}


@pytest.mark.parametrize("path", [".GITMODULES", ".gitmodules ", "GITMOD~1", ".gitm\u200codules"])
def test_the_file_of_submodules_is_known_in_every_spelling(path: str) -> None:
    assert "submodule" in {each.kind for each in refused(findings(put(path)))}


@pytest.mark.parametrize(
    "path",
    [
        "a\tb",
        "a\nb",
        "a\x1b[2Jb",
        "a\u202etxt.py",
        "a\u2066b",
        "a\u200bb",
        "a\\b",
        "a:b",
        "con",
        "AUX.py",
        "src/nul.txt",
        "com1",
        "com\u00b9.txt",
        "name.",
        "name ",
        "what?.md",
        "x" * 256,
        "\u00e9" * 128,
        "/".join(["long"] * 300),
    ],
)
def test_a_new_name_that_not_everybody_can_have_is_refused(path: str) -> None:
    found = refused(findings(put(path)))
    assert "name" in {each.kind for each in found}
    for each in found:
        assert each.text.isprintable()
        assert "`" not in each.text.split("`", 2)[1]
    old = findings(put(path), base=[file(path)])
    assert "name" not in {each.kind for each in old}


def test_a_name_that_is_not_utf_8_is_refused() -> None:
    patch = Patch(changes=(put("caf\udce9"),))
    found = inspect(patch, [], {}, RULES, secrets)
    assert [each.kind for each in found] == ["name"]
    assert found[0].text.encode()


@pytest.mark.parametrize("path", ["console.py", "aux_file.py", "\u2764\ufe0f.md", "naïve/日本.py", "a b.txt", ".x"])
def test_other_names_are_fine(path: str) -> None:
    assert findings(put(path)) == ()


def test_a_file_that_only_changes_its_mode_is_named() -> None:
    [found] = findings(put("run.sh", b"#!/bin/sh\n"))
    assert found.text == "`run.sh` only changes its mode, from 100755 to 100644"
    assert told(put("README.md", b"more\n", "100755")) == [("name", "mode", "README.md")]
    assert told(put("new.sh", mode="100755")) == [("name", "mode", "new.sh")]
    assert findings(put("run.sh", b"#!/bin/sh\nexit\n", "100755")) == ()


def test_binaries_are_named_or_refused_by_their_size() -> None:
    assert told(put("a.png", b"\0" * BINARY_LIMIT)) == [("name", "binary", "a.png")]
    assert told(put("a.png", b"\0" * (BINARY_LIMIT + 1))) == [("refuse", "binary", "a.png")]
    large = b"\0" * (BINARY_LIMIT + 1)
    assert told(put("a.png", large, "100755"), base=[file("a.png", large)]) == [("name", "mode", "a.png")]


def test_the_gravest_comes_first_and_long_lists_are_cut() -> None:
    found = findings(put("run.sh", b"#!/bin/sh\n"), put("x/.git"), put(".envrc"), rules=APPROVAL)
    assert [each.action for each in found] == ["refuse", "hold", "name"]
    assert found[0].to_dict()["text"] == found[0].text
    assert listed(["a", "b"]) == "- a\n- b"
    assert listed(["a"] * 23).endswith("- a\n- and 3 more")


def test_what_the_gate_refuses_never_passes_whatever_the_checks_say() -> None:
    held = findings(put(".envrc"), rules=APPROVAL)
    assert isinstance(judge(replace(GOOD, findings=held)), Passed)
    verdict = judge(replace(GOOD, findings=findings(put(".envrc"))))
    assert isinstance(verdict, Unverified)
    assert verdict.reasons == ("`.envrc` can run commands where the code is opened (`paths.workflows` is `refuse`)",)


def test_a_path_is_shown_so_that_nothing_comes_of_it() -> None:
    assert gate.shown("a`b\u202ec\n") == "a\\x60b\\u202ec\\n"
    assert len(gate.shown("x" * 300)) == 201


def test_what_has_to_be_read_of_the_base_is_the_changed_files_and_its_links() -> None:
    base = [*BASE, link("deep/er/link", "a"), link("top", "b"), file("other.md", b"other")]
    ids = {entry.path: entry.sha for entry, _ in base}
    wanted = needed(Patch.of(put("README.md"), put("new")), [entry for entry, _ in base])
    assert wanted == {sha: sha for sha in (ids["README.md"], ids["deep/er/link"], ids["top"])}


@given(st.lists(st.tuples(st.text(min_size=1), st.binary(), st.sampled_from(["100644", "100755", "120000"]))))
def test_any_patch_gets_an_answer(changes: list[tuple[str, bytes, Mode]]) -> None:
    unique = {path: Change(path=path, mode=mode, content=content) for path, content, mode in changes}
    found = inspect(Patch(changes=tuple(unique.values())), [entry for entry, _ in BASE], {}, RULES, secrets)
    for each in found:
        each.text.encode()
        assert "\n" not in each.text
