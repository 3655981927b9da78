"""Rust's code and the tests among it, told apart."""

from __future__ import annotations

import pytest

from bot.domain.inline_tests import DEPTH, LIMIT, code, has, items, swap

CODE = """//! Words like "these and /* these
#![allow(dead_code)]
use std::{fmt, io};
/* a /* nested "comment */ #[cfg(test)] mod no {} */
/// #[cfg(test)] is no attribute here
pub fn f<'a>(text: &'a str) -> char {
    if text == r#"a"b}"# || text == "#[test] {" { '}' } else { '\\'' }
}

pub const TABLE: [u8; 2] = [1, 2];
impl fmt::Display for A {
    fn fmt(&self) {}
}
mod inner;
static B: &[u8] = b"\\x00{";
"""
TESTS = """#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a() {
        assert_eq!(f("}"), 'x');
    }
}
"""
OTHER = TESTS.replace("'x'", "'y'")


def test_code_and_tests_are_told_apart() -> None:
    assert items(CODE + TESTS) == TESTS.rstrip("\n")
    assert code(CODE + TESTS) == CODE + "\n" * TESTS.count("\n")
    assert items(CODE) == ""
    assert code(CODE) == CODE


def test_one_version_s_code_takes_the_other_version_s_tests() -> None:
    changed = CODE.replace("1, 2", "3, 4")
    assert swap(changed + TESTS, CODE + OTHER) == changed + OTHER


def test_tests_that_came_go_and_tests_that_went_come_back_at_the_end() -> None:
    assert swap(CODE + TESTS, CODE) == CODE + "\n"
    assert swap(CODE, CODE + TESTS) == f"{CODE}\n{TESTS}"
    assert swap(TESTS + CODE + TESTS, CODE + OTHER) == f"\n{CODE}\n{OTHER}"


@pytest.mark.parametrize(
    "item",
    [
        "#[test]\nfn a() {}",
        "#[tokio::test]\nasync fn a() -> [u8; 2] { [1, 2] }",
        "#[cfg(test)]\n#[allow(unused)]\nuse std::{io, fmt};",
        "#[cfg(test)]\nconst A: Point = Point { x: 1 };",
        "#[cfg(test)]\npub const fn a() {}",
        "#[cfg(all(test, unix))]\nmod tests;",
        "#[cfg(all(unix, test))]\nmod tests { mod more {} }",
        "#[rstest]\n#[case(1)]\nfn a(#[case] n: u8) {}",
        "#[cfg(test)]\nthread_local! { static A: u8 = 1; }",
    ],
)
def test_items_of_many_kinds_are_tests(item: str) -> None:
    assert has(item)
    assert items(f"fn f() {{}}\n{item}\nfn g() {{}}\n") == item
    assert swap(f"fn f() {{}}\n{item}\nfn g() {{}}\n", "") == "fn f() {}\n\nfn g() {}\n"


@pytest.mark.parametrize(
    "item",
    [
        "#[cfg(not(test))]\nfn f() {}",
        '#[cfg(any(test, feature = "testing"))]\npub mod testing {}',
        "#[derive(Debug)]\nstruct A;",
        'fn f() {\n    #[cfg(test)]\n    println!("x");\n}',
    ],
)
def test_items_that_are_not_only_there_in_tests_are_code(item: str) -> None:
    assert items(item) == ""
    assert code(item) == item


def test_tests_deeper_in_modules_stay_where_they_are() -> None:
    def nested(expected: str) -> str:
        return f"mod a {{\n    impl B {{\n        #[cfg(test)]\n        fn x() -> char {{ {expected} }}\n    }}\n}}\n"

    assert swap("fn f() {}\n" + nested("'x'"), nested("'y'")) == "fn f() {}\n" + nested("'y'")
    assert swap("fn f() {}\n", nested("'y'")) is None
    assert swap(nested("'y'"), "") is None


def test_macros_of_tests_are_not_moved() -> None:
    first = "#[cfg(test)]\n#[macro_use]\nmod macros;\n"
    assert swap(first + CODE, CODE + OTHER) == OTHER.rstrip("\n") + "\n" + CODE
    assert swap(first + CODE + TESTS, CODE + OTHER) is None


@pytest.mark.parametrize(
    "source",
    [
        'fn f() { "',
        "/* /* */",
        'r##"x"#',
        "fn f() { ) }",
        "fn f() {",
        "}",
        "'",
        " " * (LIMIT + 1),
        "mod a {" * (DEPTH + 2) + "}" * (DEPTH + 2),
    ],
)
def test_what_can_not_be_followed_is_said_to_be_so(source: str) -> None:
    assert items(source) is None
    assert code(source) is None
    assert swap(source, CODE) is None
    assert swap(CODE, source) is None


def test_an_item_that_is_cut_off_is_a_test_as_well() -> None:
    assert items("#[test]\nfn a()") == "#[test]\nfn a()"
    assert items("#[test]") == "#[test]"
