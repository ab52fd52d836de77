"""How commands read their arguments: a recipe and a pretraining schedule by name, then the fields of a request."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from types import NoneType
from typing import Annotated, Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import docstring_parser
import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from pipelines.commands.parse_errors import one_line_errors
from pipelines.recipes import RECIPES, headline
from pipelines.recipes.schedules import with_schedule
from pipelines.workflow.requests import UNNAMED
from proser_core.config import Recipe
from proser_core.config.data import Flip
from proser_core.errors import ConfigError
from proser_core.naming import look_up

Request = TypeVar("Request")
ANY_TRAINING = ("data_dir", "storage", "pretraining", "seed")
TRAINING = (*ANY_TRAINING, "finetune.epochs")
IMAGES = ("data.image_size", "data.group_by", "network.backbone", "calibration.mirror")
FIRST = {
    "run": (*TRAINING, "dry_run", "space", "model_name", "data.split_index", "cluster.address"),
    "sweep": (*TRAINING, "dry_run", "spaces", "split_indices", "num_samples", "max_hours", "cluster.address"),
    "job": (*TRAINING, "output", "with_task", "space", "data.split_index", "pretrain.epochs"),
}
"""By command, the ten options that people set first: `--help` explains these, `--help-all` all of them."""
FIRST_OF_OWN_IMAGES = (*ANY_TRAINING, "dry_run", "model_name", *IMAGES)
"""The same options of `run` where every class is known, as in a folder of one's own images."""
ALL = "--help-all"
HELP = ("-h", "--help", ALL)
FLIPS: dict[str, Flip] = {"auto": "auto", "on": True, "off": False}
"""What `--data.flip` takes."""
BLOCKS = {kind: name for name, kind in get_type_hints(Recipe).items() if is_dataclass(kind)}


@dataclass(frozen=True)
class Schedule:
    """An option that decides the defaults of others, and so is parsed before them."""

    pretraining: str = ""
    """Pretraining schedule: short, long, strong or fast (see `proser list`). Options --pretrain.* come on top."""


def parse(kind: type[Request], command: str, arguments: list[str]) -> Request:
    """A request from the options that its fields are. Prints the help or what is wrong, and exits."""
    return _cli(kind, command, arguments, kind.__doc__)


def _cli(form: Any, command: str, arguments: list[str], about: str | None, **options: Any) -> Any:
    """tyro.cli, whose help has whole paragraphs, and without --help-all the first options alone."""
    asked = [word for word in arguments if word in HELP]
    if not asked:
        names, registry = (lambda: _option_names(*options.get("default", (form,)))), _registry()
        with registry, one_line_errors(arguments, names, _explaining(command)):
            return tyro.cli(form, prog=f"proser {command}", args=arguments, **options)
    first = () if ALL in asked else _first(command.split()[0], *options.get("default", ()))
    text = _paragraphs(about or "") + (f" These are the most common options; {ALL} shows all." if first else "")
    width = get_terminal_size().columns  # tyro would join lines that are not indented
    lines = (fill(each, width, initial_indent="  ", subsequent_indent="  ") for each in text.split("\n\n"))
    registry = _registry()
    registry.struct_rule(lambda info: _explained(info, first))
    with registry:
        return tyro.cli(form, prog=f"proser {command}", args=["--help"], description="\n\n".join(lines), **options)


def _first(command: str, request: Any = None, *_: Any) -> Collection[str]:
    """The options that the help text of a command explains first; none where it explains all."""
    recipe = getattr(request, "recipe", None)
    if command == "run" and recipe is not None and recipe.data.knows_all:
        return FIRST_OF_OWN_IMAGES
    return FIRST.get(command, ())


def _explaining(command: str) -> str:
    """The command line that explains every option of a command."""
    return f"proser {command} {ALL if command.split()[0] in FIRST else '--help'}"


def _option_names(*requests: Any, prefix: str = "--") -> Iterator[str]:
    """The options of requests, or of classes of them, as they are typed; those of a field that has a name begin with
    it."""
    for request in requests:
        kind = request if isinstance(request, type) else type(request)
        hints = get_type_hints(kind, include_extras=True)
        for each in fields(kind):
            marks = getattr(hints[each.name], "__metadata__", ())
            value, name = _default(each, request), f"{prefix}{each.name}".replace("_", "-")
            if is_dataclass(value) and tyro.conf.Suppress not in marks:
                is_unnamed = any(getattr(mark, "name", None) == "" for mark in marks)
                yield from _option_names(value, prefix=prefix if is_unnamed else f"{name}.")
            elif tyro.conf.Suppress not in marks and tyro.conf.Positional not in marks:
                yield name


def _registry() -> ConstructorRegistry:
    """What tyro does not read by itself."""
    flips: PrimitiveConstructorSpec[Flip] = PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{{{','.join(FLIPS)}}}",
        instance_from_str=lambda words: FLIPS[words[0]],
        is_instance=lambda value: value in FLIPS.values(),
        str_from_instance=lambda value: [name for name, meant in FLIPS.items() if meant == value],
        choices=tuple(FLIPS),
    )
    paths: PrimitiveConstructorSpec[Path] = PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH",
        instance_from_str=_path,
        is_instance=lambda value: isinstance(value, Path),
        str_from_instance=lambda value: [str(value)],
    )
    registry = ConstructorRegistry()
    registry.primitive_rule(lambda info: flips if info.type == Flip else None)
    registry.primitive_rule(lambda info: paths if info.type is Path else None)
    return registry


def _path(words: list[str]) -> Path:
    """Path("") would be the current folder, and `--data-dir "$UNSET"` is a mistake."""
    if not words[0]:
        raise ValueError("an empty path")
    return Path(words[0])


def _explained(info: StructTypeInfo, first: Collection[str]) -> StructConstructorSpec | None:
    """The options of a class for a help text, those that are not among the `first` hidden."""
    if not is_dataclass(info.type):
        return None
    documented = {
        each.arg_name: each.description or ""
        for kind in reversed(info.type.__mro__[:-1])
        for each in docstring_parser.parse_from_object(kind).params
    }
    hints = get_type_hints(info.type, include_extras=True)
    options = []
    for each in fields(info.type):
        hint, name = hints[each.name], ".".join(filter(None, (BLOCKS.get(info.type, ""), each.name)))
        if first and name not in first and not is_dataclass(getattr(hint, "__origin__", hint)):
            hint = Annotated[hint, tyro.conf.Suppress]
        text, default = _paragraphs(documented.get(each.name, "")), _default(each, info.default)
        if default in (None, "", ()):  # "(default: None)" tells nothing that the text does not
            hint = Annotated[hint, tyro.conf.arg(help_behavior_hint="", metavar=_metavar(hint))]
        options.append(StructFieldSpec(each.name, hint, default, text or None))
    return StructConstructorSpec(info.type, tuple(options))


def _metavar(hint: Any) -> str | None:
    """PATH of an option of type `Path | None`; None of any other type."""
    kinds = set(get_args(hint.__origin__ if get_origin(hint) is Annotated else hint))
    return next(iter(kinds - {NoneType})).__name__.upper() if len(kinds) == 2 and NoneType in kinds else None


def _default(field: "Field[Any]", usual: Any) -> Any:
    """The value of a field in the request as it is without options."""
    if is_dataclass(usual) and not isinstance(usual, type):
        return getattr(usual, field.name)
    if field.default_factory is not MISSING:
        return field.default_factory()
    return tyro.MISSING if field.default is MISSING else field.default


def _paragraphs(text: str) -> str:
    """A docstring without the line breaks of its source."""
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def parse_with_recipe(
    kind: Callable[[Recipe], Request], command: str, arguments: list[str], more: str = " [options]"
) -> Request:
    """As `parse`, of a request with a recipe, whose name comes first; `more` is what the usage text shows after it.
    Raises ConfigError where an option comes first."""
    if arguments and arguments[0].startswith("-") and not set(HELP) & set(arguments):
        raise ConfigError(_recipe_first(command, arguments))
    if not arguments or arguments[0].startswith("-"):
        names = {name: headline(make) for name, make in RECIPES.items()}
        show_names(f"{command} RECIPE", more, "Recipes", names, arguments)
    recipe = look_up("recipe", arguments[0], RECIPES)()
    return parse_with_schedule(
        lambda name: kind(with_schedule(recipe, name) if name else recipe), f"{command} {arguments[0]}", arguments[1:]
    )


def _recipe_first(command: str, arguments: list[str]) -> str:
    """What to type instead. A recipe's name right after an option may be the option's value, such as a folder."""
    places = [place for place, word in enumerate(arguments) if word in RECIPES]
    place = next((each for each in places if not arguments[each - 1].startswith("--")), None)
    if place is None:
        words, more = ["RECIPE", *arguments], f". `proser {command} --help` lists the recipes"
    else:
        words, more = [arguments[place], *arguments[:place], *arguments[place + 1 :]], ""
    return f"the recipe comes first: `{shlex.join(['proser', command, *words])}`{more}"


def parse_with_schedule(
    default: Callable[[str], Request], command: str, arguments: list[str], schedule: str = ""
) -> Request:
    """As `parse`; `default` makes the request that the options change, from the name of a schedule."""
    with one_line_errors(arguments, tuple, _explaining(command)):
        chosen, rest = tyro.cli(
            Schedule,
            prog=f"proser {command}",
            args=arguments,
            default=Schedule(schedule),
            return_unknown_args=True,
            add_help=False,
        )
    usual = default(chosen.pretraining)
    kind: Any = type(usual)
    form: Any = tuple[Annotated[kind, UNNAMED], Annotated[Schedule, UNNAMED]]  # the second for its help text
    request, _ = _cli(form, command, rest, kind.__doc__, default=(usual, chosen))
    return request


def show_names(usage: str, more: str, title: str, names: Mapping[str, str], arguments: list[str]) -> NoReturn:
    """Print what may come first, and exit: with 0 for --help, else with 2."""
    indent = max(map(len, names)) + 4
    width = get_terminal_size().columns
    lines = [
        fill(f"  {name:<{indent - 2}}{text}", width, subsequent_indent=indent * " ", break_on_hyphens=False)
        for name, text in names.items()
    ]
    head = [fill(each, width, subsequent_indent="  ") for each in f"usage: proser {usage}{more}".split("\n\n")]
    listed = "\n".join([f"{title}:", *lines])
    print("\n\n".join([*head, listed, f"`{_explaining(usage)}` explains every option."]))
    raise SystemExit(0 if set(HELP) & set(arguments) else 2)
