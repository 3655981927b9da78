"""JUnit reports of many writers, in the forms that these really write, say which tests came to what."""

from __future__ import annotations

import pytest

from bot.domain.report import Counts, Outcome, Report, read

PYTEST = """<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="2"
failures="1" skipped="2" tests="7" time="0.2" timestamp="2026-11-30T17:04:18.962539+00:00" hostname="h">
<testcase classname="test_p" name="test_p[a b]"{more} time="0.001" />
<testcase classname="sub.test_p.T" name="test_b"{more} time="0.1"><failure message="no">assert 0</failure></testcase>
<testcase classname="test_p" name="test_err"{more} time="0.1"><error message="failed on setup">E</error></testcase>
<testcase classname="test_p" name="test_s"{more} time="0.1"><skipped type="pytest.skip" message="r"/></testcase>
<testcase classname="test_p" name="test_x"{more} time="0.1"><skipped type="pytest.xfail" message="" /></testcase>
<testcase classname="test_p" name="test_td"{more} time="0.1" />
<testcase classname="test_p" name="test_td"{more} time="0.1"><error message="failed on teardown">E</error></testcase>
</testsuite></testsuites>"""
PYTEST_TESTS: dict[str, Outcome] = {
    "test_p::test_p[a b]": "passed",
    "sub.test_p.T::test_b": "failed",
    "test_p::test_err": "failed",
    "test_p::test_s": "skipped",
    "test_p::test_x": "skipped",
    "test_p::test_td": "failed",
}

FORMS: list[tuple[str, str, str, Counts, dict[str, Outcome]]] = [
    (
        "pytest, xunit1",
        "pytest",
        PYTEST.replace("{more}", ' file="test_p.py" line="1"'),
        Counts(passed=2, failed=1, skipped=2, errors=2),
        PYTEST_TESTS,
    ),
    (
        "pytest, xunit2",
        "pytest",
        PYTEST.replace("{more}", ""),
        Counts(passed=2, failed=1, skipped=2, errors=2),
        PYTEST_TESTS,
    ),
    (
        "pytest, a broken import",
        "pytest",
        '<testsuites><testsuite name="pytest" errors="1"><testcase classname="" name="sub.test_imp" time="0.000">'
        '<error message="collection failure">E</error></testcase></testsuite></testsuites>',
        Counts(errors=1),
        {"sub.test_imp": "failed"},
    ),
    (
        "jest-junit",
        "jest",
        '<testsuites name="jest tests" tests="3" failures="1" errors="0" time="0.559">'
        '<testsuite name="suite" errors="0" failures="1" skipped="1" time="0.3" tests="3">'
        '<testcase classname="suite works" name="suite works" time="0.003">\n</testcase>'
        '<testcase classname="suite breaks" name="suite breaks" time="0"><failure>Error: no</failure></testcase>'
        '<testcase classname="suite sk" name="suite sk" time="0"><skipped/></testcase></testsuite></testsuites>',
        Counts(passed=1, failed=1, skipped=1),
        {"suite works": "passed", "suite breaks": "failed", "suite sk": "skipped"},
    ),
    (
        "vitest",
        "vitest",
        '<testsuites name="vitest tests" tests="3" failures="2" errors="0" time="0.02">'
        '<testsuite name="v/a.test.js" timestamp="t" hostname="h" tests="2" failures="1">'
        '<testcase classname="v/a.test.js" name="suite &gt; works" time="0.002"></testcase>'
        '<testcase classname="v/a.test.js" name="suite &gt; breaks" time="0.009"><failure message="no" '
        'type="AssertionError">no</failure></testcase></testsuite><testsuite name="v/b.test.js" failures="1">'
        '<testcase classname="v/b.test.js" name="v/b.test.js" time="0"><failure message="Cannot find module"/>'
        "</testcase></testsuite></testsuites>",
        Counts(passed=1, failed=2),
        {"v/a.test.js::suite > works": "passed", "v/a.test.js::suite > breaks": "failed", "v/b.test.js": "failed"},
    ),
    (
        "mocha-junit-reporter",
        "mocha",
        '<testsuites name="Mocha Tests" time="0.005" tests="2" failures="1" skipped="2"><testsuite name="suite" '
        'file="/r/m/a.js"><testcase name="suite works" time="0.000" classname="works"></testcase>'
        '<testcase name="suite breaks" time="0.0" classname="breaks"><failure message="no" type="Error">'
        "<![CDATA[Error: no]]></failure></testcase></testsuite></testsuites>",
        Counts(passed=1, failed=1),
        {"works::suite works": "passed", "breaks::suite breaks": "failed"},
    ),
    (
        "mocha's own xunit",
        "mocha",
        '<testsuite name="Mocha Tests" tests="2" failures="0" errors="1" skipped="1">'
        '<testcase classname="suite" name="works" file="/r/m/a.js" time="0"/>'
        '<testcase classname="suite in" name="sk" file="/r/m/a.js" time="0"><skipped/></testcase></testsuite>',
        Counts(passed=1, skipped=1),
        {"suite::works": "passed", "suite in::sk": "skipped"},
    ),
    (
        "node",
        "node",
        '<testsuites>\n<testcase name="plain" time="0.003" classname="test"/>'
        '<testcase name="todo" time="0.0" classname="test" failure="1 == 2"><skipped type="todo" message="true"/>'
        '<failure type="testCodeFailure" message="1 == 2">E</failure></testcase>'
        '<testcase name="sk" time="0.0" classname="test"><skipped type="skipped" message="why"/></testcase>'
        '<testsuite name="top" time="0.001" tests="2" failures="1"><testcase name="sub" time="0" classname="test"/>'
        '<testsuite name="deep" time="0.003"><testcase name="sub" classname="test"><failure/></testcase></testsuite>'
        '</testsuite><testsuite name=""><testcase name="x" classname="test"/></testsuite><!-- tests --></testsuites>',
        Counts(passed=3, failed=1, skipped=2),
        {
            "plain": "passed",
            "todo": "skipped",
            "sk": "skipped",
            "top > sub": "passed",
            "top > deep > sub": "failed",
            "x": "passed",
        },
    ),
    (
        "gotestsum",
        "go",
        '<testsuites tests="3" failures="1" errors="0" time="0.1"><testsuite tests="3" failures="1" time="0.0" '
        'name="example.com/m" timestamp="t"><properties><property name="go.version" value="go1.22 linux/amd64">'
        '</property></properties><testcase classname="example.com/m" name="TestA/x_y" time="0.0"></testcase>'
        '<testcase classname="example.com/m" name="TestB" time="0.0"><failure message="Failed" type="">no</failure>'
        '</testcase><testcase classname="example.com/m" name="TestC"><skipped message="why"></skipped></testcase>'
        "</testsuite></testsuites>",
        Counts(passed=1, failed=1, skipped=1),
        {"example.com/m::TestA/x_y": "passed", "example.com/m::TestB": "failed", "example.com/m::TestC": "skipped"},
    ),
    (
        "cargo-nextest",
        "cargo",
        '<testsuites name="nextest-run" tests="3" failures="1" errors="0" uuid="u" timestamp="t" time="0.1">'
        '<testsuite name="rsx" tests="2" disabled="0" errors="0" failures="1">'
        '<testcase name="tests::works" classname="rsx" timestamp="t" time="0.0"><flakyFailure type="x">no'
        '</flakyFailure></testcase><testcase name="tests::breaks" classname="rsx" timestamp="t" time="0.0">'
        '<failure message="no" type="test failure">no</failure></testcase></testsuite><testsuite name="rsx::it">'
        '<testcase name="works" classname="rsx::it" timestamp="t" time="0.0"/></testsuite></testsuites>',
        Counts(passed=2, failed=1),
        {"rsx::tests::works": "passed", "rsx::tests::breaks": "failed", "rsx::it::works": "passed"},
    ),
    (
        "surefire",
        "surefire",
        '<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation='
        '"https://maven.apache.org/surefire/maven-surefire-plugin/xsd/surefire-test-report.xsd" version="3.0" '
        'name="com.x.ATest" time="0.05" tests="3" errors="1" skipped="1" failures="0"><properties>'
        '<property name="java.version" value="17"/></properties>'
        '<testcase name="a" classname="com.x.ATest" time="0.0"><system-out><![CDATA[<failure/>]]></system-out>'
        '</testcase><testcase name="b(int)[1]" classname="com.x.ATest" time="0.0"><error type="E">at</error>'
        '</testcase><testcase name="c" classname="com.x.ATest" time="0.0"><skipped/></testcase></testsuite>',
        Counts(passed=1, skipped=1, errors=1),
        {"com.x.ATest::a": "passed", "com.x.ATest::b(int)[1]": "failed", "com.x.ATest::c": "skipped"},
    ),
    (
        "rspec_junit_formatter",
        "ruby",
        '<testsuite name="rspec2" tests="3" skipped="1" failures="1" errors="0" time="0.02" hostname="h"><properties>'
        '<property name="seed" value="1"/></properties><testcase classname="spec.x_spec" name="A does" '
        'file="./spec/x_spec.rb" time="0.0"></testcase><testcase classname="spec.x_spec" name="A breaks" '
        'file="./spec/x_spec.rb"><failure message="no" type="F">no</failure></testcase><testcase '
        'classname="spec.x_spec" name="A sk" file="./spec/x_spec.rb"><skipped/></testcase></testsuite>',
        Counts(passed=1, failed=1, skipped=1),
        {"spec.x_spec::A does": "passed", "spec.x_spec::A breaks": "failed", "spec.x_spec::A sk": "skipped"},
    ),
    (
        "phpunit",
        "phpunit",
        '<testsuites><testsuite name="FooTest" file="/r/FooTest.php" tests="4" assertions="3" errors="2">'
        '<testcase name="testA" class="FooTest" classname="FooTest" file="/r/FooTest.php" line="4" assertions="1"/>'
        '<testcase name="testR" class="FooTest" classname="FooTest" file="/r/FooTest.php" line="5" assertions="0">'
        '<error type="PHPUnit\\Framework\\RiskyTestError">no assertions</error></testcase>'
        '<testcase name="testC" class="FooTest" classname="FooTest" file="/r/FooTest.php" line="6" assertions="0">'
        '<error type="Exception">x</error></testcase><testsuite name="FooTest::testP" tests="1"><testcase '
        'name="testP with data set &quot;na me&quot;" class="FooTest" classname="FooTest" assertions="1">'
        '<failure type="F">x</failure></testcase></testsuite></testsuite></testsuites>',
        Counts(passed=2, failed=1, errors=1),
        {
            "FooTest::testA": "passed",
            "FooTest::testR": "passed",
            "FooTest::testC": "failed",
            'FooTest::testP with data set "na me"': "failed",
        },
    ),
    (
        "somebody else's with a class of that name",
        "junit",
        '<testsuites name="mine"><testsuite name="s"><testcase name="a" classname="test"/></testsuite></testsuites>',
        Counts(passed=1),
        {"test::a": "passed"},
    ),
    (
        "somebody else's, with another's name further down",
        "junit",
        '<testsuites><testsuite name="s"><testcase name="a"/></testsuite><testsuite name="pytest"/></testsuites>',
        Counts(passed=1),
        {"a": "passed"},
    ),
]


@pytest.mark.parametrize(
    ("runner", "document", "counts", "tests"), [row[1:] for row in FORMS], ids=[row[0] for row in FORMS]
)
def test_every_writer_s_report_gives_its_runner_and_its_tests(
    runner: str, document: str, counts: Counts, tests: dict[str, Outcome]
) -> None:
    failing = tuple(sorted(name for name, outcome in tests.items() if outcome == "failed"))
    assert read(int(bool(failing)), "", "", document.encode()) == Report(
        runner=runner, counts=counts, tests=tests, failing=failing
    )


def test_a_suite_s_long_name_is_not_repeated_for_each_of_its_cases() -> None:
    deep = f'<testsuite name="{"n" * 1000}">' * 50 + '<testcase name="a" classname="test"/>' * 3 + "</testsuite>" * 50
    said = read(0, "", "", f"<testsuites>{deep}</testsuites>".encode())
    assert said is not None
    assert said.tests == {"n" * 500: "passed"}
