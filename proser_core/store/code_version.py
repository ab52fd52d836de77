"""Which source code a stage runs: a hash of its module and of every module of ours whose names it uses.

Every changed statement changes the hash, without a number to bump, and so does a name that is imported from another
library. Comments, docstrings, and the names and places of our modules do not: code that has only moved finds its
finished work again.
"""

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

OWN_PACKAGES = ("proser_core", "tune_spaces", "pipelines")
Binding = tuple[str, str]
"""The module that defines an imported name, and the name there; empty for the module itself."""


def code_version(module: str) -> str:
    """SHA-256 of a module's code, in which an imported name stands for the code of the module that defines it.

    Raises ModuleNotFoundError for what is no module of this project, ImportError for modules that import each other.
    """
    return _version(module, ())


def source_digests(*modules: str) -> dict[str, str]:
    """SHA-256 of the bytes of every file behind `code_version` of these modules, by module.

    Syntax trees, and so code versions, differ between Python versions; these digests do not.
    """
    names = sorted(frozenset[str]().union(*map(imported_modules, modules)))
    return {name: hashlib.sha256(_path(name).read_bytes()).hexdigest() for name in names}


@functools.cache
def imported_modules(module: str) -> frozenset[str]:
    """`module` and the project's modules that define what it uses, imported at the top of a file or in a function."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [source for source, _ in _bindings(name).values()]
    return frozenset(found)


_versions: dict[str, str] = {}


def _version(module: str, importers: tuple[str, ...]) -> str:
    if module in importers:
        raise ImportError(f"import circle: {' -> '.join((*importers, module))}; break it, or no version is defined")
    if module not in _versions:
        chain = (*importers, module)
        own = {name: f"{_version(source, chain)}.{inside}" for name, (source, inside) in _bindings(module).items()}
        tree = _tree(module)
        tokens = dict(_foreign(_nodes(tree))) | own
        _versions[module] = hashlib.sha256(ast.dump(_Code(tokens).visit(tree)).encode()).hexdigest()
    return _versions[module]


class _Code(ast.NodeTransformer):
    """A syntax tree without import lines and docstrings, in which `tokens` take the place of imported names."""

    def __init__(self, tokens: dict[str, str]) -> None:
        self._tokens = tokens

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            is_docstring = [isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body]
            node.body = [each for each, is_one in zip(node.body, is_docstring, strict=True) if not is_one]
        return super().generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None: ...

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if _is_for_types(node) else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._tokens.get(node.id, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`module.name` and `name` are the same where the module was imported, or the name from it."""
        token = self._tokens.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
        return ast.Name(token + node.attr, node.ctx) if token.endswith(".") else self.generic_visit(node)


@functools.cache
def _bindings(module: str) -> dict[str, Binding]:
    """What a module imports from this project, by the name that it has there."""
    return {name: _definition(*found) for name, found in _imported(_nodes(_tree(module)))}


@functools.cache
def _re_exported(module: str) -> dict[str, Binding]:
    """What a module imports at its top level, by name."""
    return dict(_imported(_tree(module).body))


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if not _is_for_types(node):
            yield node
            yield from _nodes(node)


def _imported(nodes: Iterator[ast.AST] | list[ast.stmt]) -> Iterator[tuple[str, Binding]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, (alias.name, "")) for alias in node.names if _is_own(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and _is_own(node.module):
            yield from ((alias.asname or alias.name, (node.module, alias.name)) for alias in node.names)


def _foreign(nodes: Iterator[ast.AST]) -> Iterator[tuple[str, str]]:
    """What is imported from other libraries, by its name in the module and as it is called there."""
    for node in nodes:
        if isinstance(node, ast.Import):
            names = ((each.asname, each.name) if each.asname else (each.name.split(".")[0],) * 2 for each in node.names)
            yield from ((name, f"{library}.") for name, library in names if not _is_own(library))
        elif isinstance(node, ast.ImportFrom) and node.module and not _is_own(node.module):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _definition(module: str, name: str) -> Binding:
    """Where a name is defined, through all modules that only re-export it."""
    passed: set[Binding] = set()
    while name and (module, name) not in passed:
        passed.add((module, name))
        inside = f"{module}.{name}"
        module, name = (inside, "") if _find(inside) else _re_exported(module).get(name, (module, name))
    return module, name


def _is_own(module: str) -> bool:
    return module.split(".")[0] in OWN_PACKAGES


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _tree(module: str) -> ast.Module:
    return ast.parse(_path(module).read_bytes())


def _path(module: str) -> Path:
    path = _find(module)
    if path is None:
        raise ModuleNotFoundError(f"no module {module!r} in this project, whose code a key could hold; was it renamed?")
    return path


@functools.cache
def _find(module: str) -> Path | None:
    """File of a module of ours, found without importing it; None where the name is no module."""
    package, *rest = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    if not rest:
        return Path(spec.origin)
    path = Path(spec.origin).parent.joinpath(*rest)
    candidates = (path / "__init__.py", path.with_suffix(".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)
