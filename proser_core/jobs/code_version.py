"""Which source code a stage runs: a hash of its module and of all of ours that it imports.

Comments and docstrings do not count; every other change does, without a number to bump.
"""

import ast
import functools
import hashlib
import importlib.util
from pathlib import Path

OWN_PACKAGES = ("proser_core", "tune_spaces", "pipelines")


@functools.cache
def code_version(module: str) -> str:
    """SHA-256 over the module and, transitively, every module of this project that it imports."""
    digest = hashlib.sha256()
    for name in sorted(imported_modules(module)):
        digest.update(name.encode() + _code(name))
    return digest.hexdigest()


def source_digests(*modules: str) -> dict[str, str]:
    """SHA-256 of the bytes of every file behind `code_version` of these modules, by module.

    Syntax trees, and so code versions, differ between Python versions; these digests do not.
    """
    names = sorted(frozenset[str]().union(*map(imported_modules, modules)))
    return {name: hashlib.sha256(_bytes(name)).hexdigest() for name in names}


@functools.cache
def imported_modules(module: str) -> frozenset[str]:
    """`module` and the project's modules that it needs, at the top of the file or inside functions."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found and _source(name) is not None:
            found.add(name)
            waiting += _imports(name)
    return frozenset(found)


def _imports(module: str) -> list[str]:
    names = []
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.split(".")[0] in OWN_PACKAGES]


def _code(module: str) -> bytes:
    tree = _tree(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_docstring(statement)]
    return ast.dump(tree).encode()


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _tree(module: str) -> ast.Module:
    return ast.parse(_bytes(module))


def _bytes(module: str) -> bytes:
    source = _source(module)
    assert source is not None
    return source.read_bytes()


@functools.cache
def _source(module: str) -> Path | None:
    """File of a module of ours, found without importing it; None where the name is no module."""
    package, *rest = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent.joinpath(*rest)
    candidates = (path / "__init__.py", path.with_suffix(".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)
