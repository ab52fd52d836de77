"""What is wrong with the words of a command line, in one line instead of tyro's box.

The hook is in a module of tyro that is not public; it was read in tyro 1.0.17. Another tyro without it shows its box.
"""

import difflib
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import takewhile
from pathlib import Path
from typing import Any

import tyro

from proser_core.errors import ConfigError

NEAR_AS_A_WHOLE = 0.8
"""From this likeness on, of options that end alike the one is meant whose first part was typed too."""
IMAGES = ("--data-dir", "--data")
"""Options that take a folder of images."""


def one_line_errors(
    arguments: Sequence[str], options: Callable[[], Iterable[str]], usage: str
) -> AbstractContextManager[None]:
    """Within it, tyro raises ConfigError for `arguments` that it cannot parse. `options` gives the known names,
    and `usage` is the command line that explains them."""
    on_parse_error = getattr(getattr(tyro, "_errors", None), "on_parse_error", None)
    if on_parse_error is None:
        return nullcontext()

    def refuse(event: Any) -> None:
        message = _message(event, arguments, options)
        if message:
            raise ConfigError(f"{message} `{usage}` explains all options")

    found: AbstractContextManager[None] = on_parse_error(refuse)
    return found


def _message(event: Any, arguments: Sequence[str], options: Callable[[], Iterable[str]]) -> str:
    match type(event).__name__:
        case "UnrecognizedArgs":
            return _not_recognised(event.tokens, options(), arguments)
        case "MissingArgs" if any(word.startswith("-") for word in event.unrecognized_tokens):
            return _not_recognised(event.unrecognized_tokens, options(), arguments)
        case "MissingArgs":
            names, words = [_name(each.arg) for each in event.missing_arguments], event.unrecognized_tokens
            if words and names[0] in IMAGES and Path(words[0]).is_dir():
                return _not_recognised(words, names, arguments)
            return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} required."
        case "BadValue" if event.offending_value is None:
            return f"{_name(event.argument)} got no value; need {_needed(event.argument)}."
        case "InvalidChoice":
            choices = ", ".join(choice or "''" for choice in event.choices)
            return f"{_name(event.argument)} got {event.value!r}; need one of {choices}."
        case "InstantiationFailure" if event.argument:
            given = _given(event.argument.lowered.name_or_flags, arguments)
            return f"{_name(event.argument)} got {given!r}; need {_needed(event.argument)}."
    return ""


def _not_recognised(words: Sequence[str], options: Iterable[str], arguments: Sequence[str]) -> str:
    """Name the options nearest to one that does not exist, or say that a word is one too many: a folder may be the
    images."""
    typed = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if typed is None:
        given = {word.partition("=")[0] for word in arguments}
        takes = next((each for each in options if each in IMAGES and each not in given), None)
        folder = shlex.quote(words[0])
        meant = f"; did you mean {takes} {folder}?" if takes and Path(words[0]).is_dir() else "."
        return f"{words[0]!r} is not expected here{meant}"
    near = " or ".join(nearest(typed, options))
    return f"no option is called {typed!r}; did you mean {near}?" if near else f"no option is called {typed!r}."


def nearest(typed: str, options: Iterable[str]) -> list[str]:
    """The options whose last part is the nearest to what was typed: --epoks is near to the `epochs` of two blocks."""
    last = {option: option.lstrip("-").rpartition(".")[2] for option in options}
    typed = typed.replace("_", "-")
    parts = difflib.get_close_matches(typed.lstrip("-").rpartition(".")[2], set(last.values()), n=1)
    found = [option for option, part in last.items() if part in parts]
    return difflib.get_close_matches(typed, found, n=1, cutoff=NEAR_AS_A_WHOLE) or found


def _name(argument: Any) -> str:
    """The argument as it is typed: --device, or MODEL of one without a name."""
    return str(argument.lowered.metavar if argument.is_positional() else argument.lowered.name_or_flags[-1])


def _needed(argument: Any) -> str:
    """What an option takes: PATH of one that may be omitted, too. An argument that is no option has its name there."""
    return "a value" if argument.is_positional() else str(argument.lowered.metavar).removeprefix("{None}|")


def _given(names: Sequence[str], arguments: Sequence[str]) -> str:
    """What was given for an option: the words up to the next one."""
    for place, word in enumerate(arguments):
        name, _, value = word.replace("_", "-").partition("=")
        if name in names:
            rest = takewhile(lambda each: not each.startswith("--"), arguments[place + 1 :])
            return word.partition("=")[2] if value else " ".join(rest)
    return ""
