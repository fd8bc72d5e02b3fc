"""``sandboxc completion``: static completion scripts, generated from the parsers."""

import argparse
from argparse import Namespace

from sandboxc import console
from sandboxc.commands._arguments import add, add_output
from sandboxc.exits import CLEAN
from sandboxc.records import Any, NamedTuple

SHELLS = ("bash", "zsh", "fish", "powershell")
_EXAMPLE = """\
sandboxc completion bash > ~/.local/share/bash-completion/completions/sandboxc
sandboxc completion zsh > ~/.zfunc/_sandboxc"""


class Option(NamedTuple):
    """One option of a command: its spellings, what it says, and the words that its value may be."""

    words: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


class Command(NamedTuple):
    """One command with its options, and the words that its arguments may be (none: a path)."""

    name: str
    help: str
    options: tuple[Option, ...]
    choices: tuple[str, ...]


def add_parser(commands: Any) -> None:
    """Add the command to a parser."""
    parser = add(commands, "completion", "print a completion script for a shell", _EXAMPLE)
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    add_output(parser, ())


def run(arguments: Namespace) -> int:
    """Return the exit code."""
    from sandboxc.commands import COMMANDS
    from sandboxc.commands._arguments import parser

    found = _commands(parser(), COMMANDS)
    scripts = {"bash": _bash, "zsh": _zsh, "fish": _fish, "powershell": _powershell}
    console.write(scripts[arguments.shell](found))
    return CLEAN


def _commands(top: argparse.ArgumentParser, summaries: dict[str, str]) -> list[Command]:
    found: list[Command] = []
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, parser in action.choices.items():
                options: list[Option] = []
                choices: list[str] = []
                for inner in parser._actions:
                    words = tuple(str(word) for word in inner.choices or ())
                    if inner.option_strings:
                        takes = inner.nargs != 0
                        options.append(Option(tuple(inner.option_strings), _plain(inner.help), takes, words))
                    else:
                        choices += words
                found.append(Command(name, summaries[name], tuple(options), tuple(choices)))
    return found


def _plain(text: str | None) -> str:
    return (text or "").replace("'", "").replace('"', "").replace("`", "").replace("[", "(").replace("]", ")")


def _bash(commands: list[Command]) -> str:
    cases: list[str] = []
    values: list[str] = []
    for item in commands:
        words = " ".join(word for option in item.options for word in option.words)
        cases.append(f'        {item.name}) words="{words}"; plain="{" ".join(item.choices)}" ;;')
        for option in item.options:
            if option.takes_value and option.choices:
                pattern = "|".join(f"{item.name}:{word}" for word in option.words)
                values.append(
                    f'        {pattern}) COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$word")); return ;;'
                )
    names = " ".join(item.name for item in commands)
    return "\n".join(
        [
            "# bash completion for sandboxc",
            "_sandboxc() {",
            '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            '    local command="${COMP_WORDS[1]}" words plain',
            '    if [ "$COMP_CWORD" -eq 1 ]; then',
            f'        COMPREPLY=($(compgen -W "{names} --help --version" -- "$word")); return',
            "    fi",
            '    case "$command:$before" in',
            *values,
            "    esac",
            '    case "$command" in',
            *cases,
            "    esac",
            '    case "$word" in',
            '        -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;',
            '        *) if [ -n "$plain" ]; then COMPREPLY=($(compgen -W "$plain" -- "$word"));',
            '           else COMPREPLY=($(compgen -f -- "$word")); fi ;;',
            "    esac",
            "}",
            "complete -o filenames -F _sandboxc sandboxc",
            "",
        ]
    )


def _zsh(commands: list[Command]) -> str:
    lines = ["#compdef sandboxc", "", "_sandboxc() {", "    local -a commands", "    commands=("]
    lines += [f"        '{item.name}:{_plain(item.help)}'" for item in commands]
    lines += [
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        _describe command commands",
        "        return",
        "    fi",
    ]
    lines += ["    local command=$words[2]", "    shift words", "    (( CURRENT-- ))", "    case $command in"]
    for item in commands:
        lines.append(f"        {item.name})")
        lines.append("            _arguments \\")
        for option in item.options:
            value = ""
            if option.takes_value:
                value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
            lines += [
                f"                '*{word}[{_plain(option.help).replace(':', ' ')}]{value}' \\" for word in option.words
            ]
        plain = f"({' '.join(item.choices)})" if item.choices else "_files"
        lines += [f"                '*:argument:{plain}'", "            ;;"]
    return "\n".join([*lines, "    esac", "}", "", '_sandboxc "$@"', ""])


def _fish(commands: list[Command]) -> str:
    lines = ["# fish completion for sandboxc"]
    lines.append("complete -c sandboxc -n __fish_use_subcommand -l version -d 'show the version'")
    for item in commands:
        lines.append(f"complete -c sandboxc -f -n __fish_use_subcommand -a {item.name} -d '{_plain(item.help)}'")
        seen = f"-n '__fish_seen_subcommand_from {item.name}'"
        if item.choices:
            lines.append(f"complete -c sandboxc -f {seen} -a '{' '.join(item.choices)}'")
        for option in item.options:
            names = " ".join(f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" for word in option.words)
            value = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r" if option.takes_value else ""
            lines.append(f"complete -c sandboxc {seen} {names}{value} -d '{_plain(option.help)}'")
    return "\n".join(lines) + "\n"


def _powershell(commands: list[Command]) -> str:
    rows = []
    for item in commands:
        words = [*item.choices, *(word for option in item.options for word in option.words)]
        rows.append(f"        '{item.name}' = @({', '.join(repr(word) for word in words)})")
    names = ", ".join(f"'{item.name}'" for item in commands)
    return "\n".join(
        [
            "# PowerShell completion for sandboxc",
            "Register-ArgumentCompleter -Native -CommandName sandboxc -ScriptBlock {",
            "    param($wordToComplete, $commandAst, $cursorPosition)",
            "    $options = @{",
            *rows,
            "    }",
            "    $elements = @($commandAst.CommandElements | ForEach-Object { $_.ToString() })",
            f"    $words = @({names}, '--help', '--version')",
            "    if ($elements.Count -gt 2 -or ($elements.Count -eq 2 -and $wordToComplete -eq '')) {",
            "        $words = $options[$elements[1]]",
            "    }",
            '    $words | Where-Object { $_ -like "$wordToComplete*" } | ForEach-Object {',
            "        [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterName', $_)",
            "    }",
            "}",
            "",
        ]
    )
