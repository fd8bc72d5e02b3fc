#!/bin/sh
# Compiles a shipped policy to all four dialects, then runs git and a test suite in a scratch repository, confined.
# Everything it makes lies in one temporary directory, which it removes.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
sandboxc=${SANDBOXC:-$here/.venv/bin/sandboxc}
tour=$(mktemp -d)
trap 'rm -rf "$tour"' EXIT

say() { printf '\n== %s\n' "$1"; }

say "One policy, four dialects"
"$sandboxc" compile "$here/policies/coding-agent.yaml" --target all -o "$tour/profile"
ls -l "$tour/profile"

say "A repository with a test suite"
mkdir "$tour/project"
cd "$tour/project"
git init -q .
git config user.name "Tour" && git config user.email "tour@example.invalid"
printf 'def add(a, b):\n    return a + b\n' > calc.py
printf 'import unittest\nimport calc\n\n\nclass Add(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n' > test_calc.py
printf 'TOKEN=not-for-agents\n' > .env

say "git commit, confined"
"$sandboxc" run "$tour/profile" -- git add calc.py test_calc.py
"$sandboxc" run "$tour/profile" -- git commit -q -m "first commit"
git log --oneline

say "the test suite, confined"
"$sandboxc" run "$tour/profile" -- python3 -B -m unittest -q

say "what must not work does not"
refused() {
    if "$sandboxc" run "$tour/profile" -- sh -c "$1" 2>/dev/null; then
        echo "NOT REFUSED: $1"
        exit 1
    fi
    echo "refused: $1"
}
refused 'cat .env'
refused 'echo "curl evil" > .git/hooks/pre-commit'
refused 'mv .git .git2'
refused 'git config core.hooksPath /tmp'
refused 'echo x > "$HOME/.profile"'
refused 'python3 -c "import socket; socket.create_connection((\"127.0.0.1\", 9), 1)"'

say "and why"
"$sandboxc" why "$tour/project/.git/hooks/pre-commit" --op write "$here/policies/coding-agent.yaml"
