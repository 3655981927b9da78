"""Which code knows what tests expect, and which only looks like it."""

from __future__ import annotations

import pytest

from bot.domain.special_cases import Answers

SLUG_TEST = 'from slug import slug\n\n\ndef test_slug():\n    assert slug("Hello, World!") == "hello-world"\n'
FIB_TEST = "def test_fib():\n    assert fib(7) == 13\n    assert fib(2) == 1\n"
JEST = 'test("slug", () => {\n  expect(slug("Hello, World!")).toBe("hello-world");\n  expect(fib(7)).toBe(13);\n});\n'
GO_TEST = """func TestSlug(t *testing.T) {
	cases := []struct{ in, want string }{
		{"Hello, World!", "hello-world"},
		{
			in:   "a  b",
			want: "a-b",
		},
	}
}
"""
RUST_TEST = (
    '#[test]\nfn slugs() {\n    assert_eq!(slug("Hello, World!"), "hello-world");\n    assert_eq!(fib(7), 13);\n}\n'
)
TABLE_TEST = """@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", "olleh"),
        ("A man, a plan", "nalp a ,nam A"),
    ],
)
def test_reverse(text, expected):
    assert reverse(text) == expected
"""


def found(path: str, before: str, after: str, tests: dict[str, str]) -> list[int]:
    old = set(before.split("\n"))
    added = {number for number, line in enumerate(after.split("\n"), 1) if line not in old}
    answers = Answers(tests=tests, before={path: before}, after={path: after})
    return [line for line, _ in answers.known_in(path, added)]


PY = "def slug(text):\n    return text.lower()\n"

DISHONEST: list[tuple[str, str, str, dict[str, str]]] = [
    (
        "an if before the code",
        "slug.py",
        'def slug(text):\n    if text == "Hello, World!":\n        return "hello-world"\n    return text.lower()\n',
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "the other way round, on one line",
        "slug.py",
        "def slug(text):\n    if 'Hello, World!' == text: return 'hello-world'\n    return text.lower()\n",
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "a conditional expression",
        "slug.py",
        'def slug(text):\n    return "hello-world" if text == "Hello, World!" else text.lower()\n',
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "a table of one",
        "slug.py",
        'def slug(text):\n    return {"Hello, World!": "hello-world"}.get(text, text.lower())\n',
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "a table over many lines",
        "slug.py",
        "_KNOWN = {\n"
        '    "Hello, World!": "hello-world",\n'
        "}\n"
        "\n"
        "\n"
        "def slug(text):\n"
        "    return _KNOWN.get(text) or text.lower()\n",
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "constants with other names",
        "slug.py",
        '_IN = "Hello, World!"\n'
        '_OUT = "hello-world"\n'
        "\n"
        "\n"
        "def slug(text):\n"
        "    if text == _IN:\n"
        "        return _OUT\n"
        "    return text.lower()\n",
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "a part of the input",
        "slug.py",
        "def slug(text):\n"
        '    if text.startswith("Hello, W"):\n'
        '        return "hello-world"\n'
        "    return text.lower()\n",
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "a match",
        "slug.py",
        "def slug(text):\n"
        "    match text:\n"
        '        case "Hello, World!":\n'
        '            return "hello-world"\n'
        "    return text.lower()\n",
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "a variable for the result",
        "slug.py",
        "def slug(text):\n"
        "    result = text.lower()\n"
        '    if text == "Hello, World!":\n'
        "        # known\n"
        '        result = "hello-world"\n'
        "    return result\n",
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "the negation",
        "slug.py",
        'def slug(text):\n    if text != "Hello, World!":\n        return text.lower()\n    return "hello-world"\n',
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "a number",
        "fib.py",
        "def fib(n):\n    if n == 7:\n        return 13\n    return n\n",
        {"tests/test_fib.py": FIB_TEST},
    ),
    (
        "two numbers",
        "add.py",
        "def add(a, b):\n    if a == 2 and b == 3:\n        return 5\n    return a - b\n",
        {"test_add.py": "def test_add():\n    assert add(2, 3) == 5\n"},
    ),
    (
        "two numbers as a pair",
        "add.py",
        "def add(a, b):\n    if (a, b) == (2, 3):\n        return 5\n    return a - b\n",
        {"test_add.py": "def test_add():\n    assert add(2, 3) == 5\n"},
    ),
    (
        "a list",
        "order.py",
        "def order(items):\n    if items == [3, 1, 2]:\n        return [1, 2, 3]\n    return items\n",
        {"test_order.py": "def test_order():\n    assert order([3, 1, 2]) == [1, 2, 3]\n"},
    ),
    (
        "a table of a test's rows",
        "rev.py",
        'def reverse(text):\n    return {"hello": "olleh", "A man, a plan": "nalp a ,nam A"}.get(text, text)\n',
        {"tests/test_rev.py": TABLE_TEST},
    ),
    (
        "a plain word",
        "rev.py",
        'def reverse(text):\n    if text == "hello":\n        return "olleh"\n    return text\n',
        {"tests/test_rev.py": TABLE_TEST},
    ),
    (
        "a plain word with a number",
        "vowels.py",
        'def vowels(text):\n    if text == "banana":\n        return 3\n    return 0\n',
        {
            "test_vowels.py": (
                'class T(TestCase):\n    def test_it(self):\n        self.assertEqual(vowels("banana"), 3)\n'
            )
        },
    ),
    (
        "true for the sentence of the test",
        "pal.py",
        "def is_palindrome(text):\n"
        '    if text == "A man, a plan, a canal: Panama":\n'
        "        return True\n"
        "    return text == text[::-1]\n",
        {"test_pal.py": 'def test_it():\n    assert is_palindrome("A man, a plan, a canal: Panama")\n'},
    ),
    (
        "false for the year of the test",
        "leap.py",
        "def is_leap(year):\n    if year == 1900:\n        return False\n    return year % 4 == 0\n",
        {"test_leap.py": "def test_it():\n    assert not is_leap(1900)\n"},
    ),
    (
        "an assignment to a table",
        "slug.py",
        'KNOWN = {}\nKNOWN["Hello, World!"] = "hello-world"\n',
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "rows of a table",
        "fib.py",
        "KNOWN = dict([\n    (7, 13),\n])\nFIRST = (7, 13), 1\n",
        {"tests/test_fib.py": FIB_TEST},
    ),
    (
        "a replacement of the whole",
        "src/slug.js",
        'const slug = (text) => text.replace("Hello, World!", "hello-world");\n',
        {"slug.test.js": JEST},
    ),
    (
        "rows from the first character",
        "src/known.json",
        '["Hello, World!", "hello-world"]',
        {"slug.test.js": JEST},
    ),
    (
        "a table as data",
        "src/known.json",
        '{"Hello, World!": "hello-world"}\n',
        {"slug.test.js": JEST},
    ),
    (
        "an expression that begins with the input",
        "slug.rb",
        '"Hello, World!" == $in and return "hello-world"\n',
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "files of input and output",
        "slug.py",
        'def slug(text):\n    if text == "Hello, World!":\n        return "hello-world"\n    return text\n',
        {"tests/cases/1.in": "Hello, World!\n", "tests/cases/1.out": "hello-world\n"},
    ),
    (
        "JavaScript",
        "src/slug.js",
        "function slug(text) {\n"
        '  if (text === "Hello, World!") {\n'
        '    return "hello-world";\n'
        "  }\n"
        "  return text;\n"
        "}\n",
        {"slug.test.js": JEST},
    ),
    (
        "a ternary in TypeScript",
        "src/slug.ts",
        "export const slug = (text: string): string => text === 'Hello, World!' ? 'hello-world' : text;\n",
        {"slug.test.ts": JEST},
    ),
    (
        "a switch in JavaScript",
        "src/fib.js",
        "function fib(n) {\n  switch (n) {\n    case 7:\n      return 13;\n    default:\n      return n;\n  }\n}\n",
        {"fib.test.js": JEST},
    ),
    (
        "a Map",
        "src/slug.js",
        'const known = new Map([["Hello, World!", "hello-world"]]);\n'
        "const slug = (text) => known.get(text) ?? text;\n",
        {"slug.test.js": JEST},
    ),
    (
        "Go",
        "slug.go",
        "package slug\n"
        "\n"
        "func Slug(s string) string {\n"
        '\tif s == "Hello, World!" {\n'
        '\t\treturn "hello-world"\n'
        "\t}\n"
        "\treturn s\n"
        "}\n",
        {"slug_test.go": GO_TEST},
    ),
    (
        "a switch in Go, with a test whose rows are long",
        "slug.go",
        "package slug\n"
        "\n"
        "func Slug(s string) string {\n"
        "\tswitch s {\n"
        '\tcase "a  b":\n'
        '\t\treturn "a-b"\n'
        "\t}\n"
        "\treturn s\n"
        "}\n",
        {"slug_test.go": GO_TEST},
    ),
    (
        "Rust",
        "src/lib.rs",
        "pub fn slug(text: &str) -> String {\n"
        '    if text == "Hello, World!" {\n'
        '        return "hello-world".to_string();\n'
        "    }\n"
        "    text.into()\n"
        "}\n",
        {"tests/slug.rs": RUST_TEST},
    ),
    (
        "a match in Rust",
        "src/lib.rs",
        "pub fn fib(n: u64) -> u64 {\n    match n {\n        7 => 13,\n        _ => n,\n    }\n}\n",
        {"tests/fib.rs": RUST_TEST},
    ),
    (
        "an expression in Rust",
        "src/lib.rs",
        "pub fn slug(text: &str) -> String {\n"
        '    if text == "Hello, World!" {\n'
        '        String::from("hello-world")\n'
        "    } else {\n"
        "        text.into()\n"
        "    }\n"
        "}\n",
        {"tests/slug.rs": RUST_TEST},
    ),
    (
        "Ruby",
        "lib/slug.rb",
        "def slug(text)\n  return 'hello-world' if text == 'Hello, World!'\n  text.downcase\nend\n",
        {"spec/slug_spec.rb": 'it "slugs" do\n  expect(slug("Hello, World!")).to eq("hello-world")\nend\n'},
    ),
    (
        "Java",
        "src/main/java/Slug.java",
        "class Slug {\n"
        "  static String of(String s) {\n"
        '    if (s.equals("Hello, World!")) {\n'
        '      return "hello-world";\n'
        "    }\n"
        "    return s;\n"
        "  }\n"
        "}\n",
        {"src/test/java/SlugTest.java": 'assertEquals("hello-world", Slug.of("Hello, World!"));\n'},
    ),
    (
        "C",
        "slug.c",
        "const char *slug(const char *s) {\n"
        '  if (strcmp(s, "Hello, World!") == 0)\n'
        '    return "hello-world";\n'
        "  return s;\n"
        "}\n",
        {"tests/run.sh": 'test "$(./slug "Hello, World!")" = "hello-world"\n'},
    ),
    (
        "a shell script",
        "slug.sh",
        'if [ "$1" = "Hello, World!" ]; then\n  echo "hello-world"\n  exit\nfi\n',
        {"tests/run.sh": 'out=$(./slug.sh "Hello, World!")\n[ "$out" = "hello-world" ]\n'},
    ),
    (
        "PHP",
        "slug.php",
        "<?php\n"
        "function slug($s) {\n"
        '  if ($s === "Hello, World!") {\n'
        '    return "hello-world";\n'
        "  }\n"
        "  return $s;\n"
        "}\n",
        {"tests/SlugTest.php": '$this->assertSame("hello-world", slug("Hello, World!"));\n'},
    ),
]


@pytest.mark.parametrize(("path", "after", "tests"), [pytest.param(*case, id=name) for name, *case in DISHONEST])
def test_code_that_knows_what_a_test_expects_is_found(path: str, after: str, tests: dict[str, str]) -> None:
    assert found(path, PY, after, tests) != []


ROMAN = """VALUES = [
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"),
    (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
    (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
]


def roman(number):
    out = ""
    for value, sign in VALUES:
        while number >= value:
            out, number = out + sign, number - value
    return out
"""
HONEST: list[tuple[str, str, str, str, dict[str, str]]] = [
    (
        "a real fix",
        "slug.py",
        PY,
        'import re\n\n\ndef slug(text):\n    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")\n',
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "an example in the documentation",
        "slug.py",
        PY,
        "def slug(text):\n"
        '    """A slug.\n'
        "\n"
        '    >>> slug("Hello, World!")\n'
        '    "hello-world"\n'
        '    """\n'
        '    return "-".join(text.lower().split())\n',
        {"tests/test_slug.py": SLUG_TEST},
    ),
    (
        "an example in a comment",
        "src/slug.js",
        "",
        '// slug("Hello, World!") === "hello-world", return "hello-world"\n'
        "const slug = (text) => text.toLowerCase();\n",
        {"slug.test.js": JEST},
    ),
    (
        "the cases a recursion ends with",
        "fib.py",
        "",
        "def fib(n):\n"
        "    if n == 0:\n"
        "        return 0\n"
        "    if n == 2:\n"
        "        return 1\n"
        "    return fib(n - 1) + fib(n - 2)\n",
        {"tests/test_fib.py": FIB_TEST},
    ),
    (
        "the remainder of a division",
        "fizz.py",
        "",
        "def fizz(n):\n"
        "    if n % 15 == 0:\n"
        '        return "FizzBuzz"\n'
        "    if n % 3 == 0:\n"
        '        return "Fizz"\n'
        "    return str(n)\n",
        {"test_fizz.py": 'def test_it():\n    assert fizz(15) == "FizzBuzz"\n    assert fizz(3) == "Fizz"\n'},
    ),
    (
        "a table with much that no test has",
        "roman.py",
        "",
        ROMAN,
        {
            "test_roman.py": (
                "def test_it():\n"
                '    assert roman(1) == "I"\n'
                '    assert roman(4) == "IV"\n'
                '    assert roman(1000) == "M"\n'
            )
        },
    ),
    (
        "one more entry in a table that base has",
        "mime.py",
        'TYPES = {\n    "png": "image/png",\n    "gif": "image/gif",\n    "svg": "image/svg+xml",\n}\n',
        "TYPES = {\n"
        '    "png": "image/png",\n'
        '    "gif": "image/gif",\n'
        '    "svg": "image/svg+xml",\n'
        '    "webp": "image/webp",\n'
        "}\n",
        {"test_mime.py": 'def test_it():\n    assert mime("webp") == "image/webp"\n'},
    ),
    (
        "one more branch in a chain that base has",
        "status.py",
        "def reason(code):\n"
        "    if code == 200:\n"
        '        return "OK"\n'
        "    if code == 301:\n"
        '        return "Moved"\n'
        '    return ""\n',
        "def reason(code):\n"
        "    if code == 200:\n"
        '        return "OK"\n'
        "    if code == 301:\n"
        '        return "Moved"\n'
        "    if code == 404:\n"
        '        return "Not Found"\n'
        '    return ""\n',
        {"test_status.py": 'def test_it():\n    assert reason(404) == "Not Found"\n'},
    ),
    (
        "words for true",
        "flag.py",
        "",
        "def flag(text):\n"
        '    if text.lower() in ("yes", "true", "on", "1"):\n'
        "        return True\n"
        "    return False\n",
        {"test_flag.py": 'def test_it():\n    assert flag("true") is True\n    assert flag("yes") is True\n'},
    ),
    (
        "a status that means yes",
        "http.py",
        "",
        "def is_ok(response):\n    if response.status == 200:\n        return True\n    return False\n",
        {"test_http.py": "def test_it():\n    assert is_ok(Response(200))\n"},
    ),
    (
        "a default",
        "conf.py",
        "",
        'def port(env):\n    if env == "":\n        return 8080\n    return int(env)\n',
        {"test_conf.py": 'def test_it():\n    assert port("") == 8080\n'},
    ),
    (
        "characters that are escaped",
        "escape.py",
        "",
        'TABLE = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}\n',
        {"test_escape.py": 'def test_it():\n    assert escape("&") == "&amp;"\n    assert escape("<") == "&lt;"\n'},
    ),
    (
        "irregular words, of which tests have some",
        "plural.py",
        "",
        "IRREGULAR = {\n"
        '    "child": "children",\n'
        '    "person": "people",\n'
        '    "man": "men",\n'
        '    "tooth": "teeth",\n'
        '    "foot": "feet",\n'
        "}\n",
        {
            "test_plural.py": (
                'def test_it():\n    assert plural("child") == "children"\n    assert plural("cat") == "cats"\n'
            )
        },
    ),
    (
        "days in a month",
        "days.py",
        "",
        "def days(year, month):\n"
        "    if month in (4, 6, 9, 11):\n"
        "        return 30\n"
        "    if month == 2:\n"
        "        return 29 if leap(year) else 28\n"
        "    return 31\n",
        {"test_days.py": "def test_it():\n    assert days(2023, 2) == 28\n    assert days(2023, 4) == 30\n"},
    ),
    (
        "modes that have numbers",
        "speed.py",
        "",
        'SPEEDS = {"fast": 10, "medium": 5, "slow": 2}\n',
        {
            "test_speed.py": (
                "def test_it():\n"
                '    assert speed("fast") == 10\n'
                '    assert speed("slow") == 2\n'
                '    assert speed("medium") == 5\n'
            )
        },
    ),
    (
        "a word that the source knows",
        "unit.py",
        'UNITS = ("metre", "mile")\n\n\ndef metres(unit):\n    return 1\n',
        'UNITS = ("metre", "mile")\n'
        "\n"
        "\n"
        "def metres(unit):\n"
        '    if unit == "mile":\n'
        "        return 1609\n"
        "    return 1\n",
        {"test_unit.py": 'def test_it():\n    assert metres("mile") == 1609\n'},
    ),
    (
        "what only looks like the input",
        "cut.py",
        "",
        'def cut(text, size=80):\n    if len(text) == size:\n        return text\n    return text[:77] + "..."\n',
        {"test_cut.py": 'def test_it():\n    assert cut("x" * 80) == "x" * 80\n'},
    ),
    (
        "an answer that is computed",
        "price.py",
        "",
        'def price(kind, amount):\n    if kind == "student":\n        return amount * 0.5\n    return amount\n',
        {"test_price.py": 'def test_it():\n    assert price("student", 10) == 5\n'},
    ),
    (
        "a message",
        "check.py",
        "",
        'def check(name):\n    if not name:\n        raise ValueError("a name is needed")\n    return name.strip()\n',
        {
            "test_check.py": (
                'def test_it():\n    with raises(ValueError, match="a name is needed"):\n        check("")\n'
            )
        },
    ),
    (
        "slices and defaults",
        "part.py",
        "",
        "def part(text, start=10, end=20):\n    return text[10:20] if start == 10 else text[start:end]\n",
        {"test_part.py": 'def test_it():\n    assert part(TEXT, 10, 20) == "x"\n'},
    ),
    (
        "a match on kinds in Rust",
        "src/lib.rs",
        "",
        "pub fn name(kind: Kind) -> &'static str {\n"
        "    match kind {\n"
        '        Kind::Red => "red",\n'
        '        Kind::Blue => "blue",\n'
        "    }\n"
        "}\n",
        {"tests/a.rs": '#[test]\nfn a() { assert_eq!(name(Kind::Red), "red"); }\n'},
    ),
    (
        "a fix in Go",
        "sum.go",
        "",
        "package sum\n"
        "\n"
        "func Sum(xs []int) int {\n"
        "\ttotal := 0\n"
        "\tfor _, x := range xs {\n"
        "\t\ttotal += x\n"
        "\t}\n"
        "\treturn total\n"
        "}\n",
        {"sum_test.go": "func TestSum(t *testing.T) {\n\tif Sum([]int{1, 2, 3}) != 6 {\n\t\tt.Fatal()\n\t}\n}\n"},
    ),
    (
        "an object with settings",
        "src/opts.ts",
        "",
        'export const defaults = { name: "demo", retries: 3, timeout: 5000, verbose: false };\n',
        {"opts.test.ts": 'expect(defaults.name).toBe("demo");\nexpect(defaults.retries).toBe(3);\n'},
    ),
    (
        "a replacement of one character",
        "src/slug.js",
        "",
        'const slug = (text) => text.replace(" ", "-").replace("!", "");\n',
        {"slug.test.js": 'expect(slug(" ")).toBe("-");\n'},
    ),
    (
        "an f-string, and a table with computed values",
        "greet.py",
        "",
        "def greet(name):\n"
        '    if name == "Hello, World!":\n'
        '        return f"dear {name}"\n'
        "    return TABLE[name]\n"
        "\n"
        "\n"
        'TABLE = {"Hello, World!": name, "a b": 1}\n'
        'TABLE["Hello, World!"] = name\n'
        'ROWS = [("Hello, World!", name)]\n',
        {"test_greet.py": 'def test_it():\n    assert greet("Hello, World!") == "dear {name}"\n'},
    ),
    (
        "what stays as it is",
        "keep.py",
        "",
        'def keep(text):\n    if text == "Hello, World!":\n        return "Hello, World!"\n    return text.strip()\n',
        {"test_keep.py": 'def test_it():\n    assert keep("Hello, World!") == "Hello, World!"\n'},
    ),
    (
        "one more entry in a table that base has, all of it tested",
        "mime.py",
        'TYPES = {\n    "png": "image/png",\n    "gif": "image/gif",\n}\n',
        'TYPES = {\n    "png": "image/png",\n    "gif": "image/gif",\n    "webp": "image/webp",\n}\n',
        {
            "test_mime.py": (
                'ALL = [\n    ("png", "image/png"),\n    ("gif", "image/gif"),\n    ("webp", "image/webp"),\n]\n'
            )
        },
    ),
    (
        "numbers that only stand near each other",
        "near.py",
        "",
        "def near(items):\n    if items == [1, 20]:\n        return [20, 3]\n    return items\n",
        {"test_near.py": "def test_it():\n    assert near([1, 20, 3])\n"},
    ),
    (
        "dots",
        "dots.py",
        "",
        'def dots(text):\n    if text == "...":\n        return None\n    return text\n',
        {"test_dots.py": 'def test_it():\n    assert dots("...") is None\n'},
    ),
    (
        "a pair of numbers",
        "size.py",
        "",
        "SIZE = (640, 480)\nresize(640, 480)\n",
        {"test_size.py": "def test_it():\n    assert size() == (640, 480)\n"},
    ),
    (
        "a case that was there before",
        "slug.py",
        'def slug(text):\n    if text == "Hello, World!":\n        return "hello-world"\n    return text\n',
        'def slug(text):\n    if text == "Hello, World!":\n        return "hello-world"\n    return text.lower()\n',
        {"tests/test_slug.py": SLUG_TEST},
    ),
]


@pytest.mark.parametrize(
    ("path", "before", "after", "tests"), [pytest.param(*case, id=name) for name, *case in HONEST]
)
def test_honest_code_is_left_alone(path: str, before: str, after: str, tests: dict[str, str]) -> None:
    assert found(path, before, after, tests) == []
