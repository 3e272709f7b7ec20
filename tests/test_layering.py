"""Imports point one way: cli -> loop -> (observe, announce) -> the pure modules -> facts. The pure ones are pure."""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIBRARY = "ckpt_governor"
READER = "ckpt_reader"

# Every module directly in ckpt_governor/ is in one of these two sets; the folders have their place in LAYERS.
PURE = {
    "answers",
    "asking",
    "closing",
    "conditions",
    "copies",
    "decide",
    "durations",
    "estimate",
    "facts",
    "hazards",
    "intake",
    "judge",
    "ledger",
    "leftovers",
    "memory",
    "numbers",
    "placement",
    "pointers",
    "prices",
    "receipt",
    "records",
    "rules",
    "settings",
    "signs",
    "signs_memory",
    "situation",
    "sizes",
    "statefile",
    "wording",
}
IMPURE = {
    "__init__",
    "__main__",
    "announce",
    "demo_job",
    "files",
    "loop",
    "numbersfile",
    "quiet",
    "say",
    "signals",
    "unit",
    "wrap",
}

# Lowest first. A module imports from lower layers, and within its own layer only its own folder.
# The pure modules are one layer in which no import goes round in a circle.
LAYERS: tuple[set[str], ...] = (
    {"__init__", "demo_job"},  # the demo's training job is a job: it uses nothing of the library
    {"conditions"},
    {"signs"},
    {"facts"},
    PURE - {"conditions", "signs", "facts"},
    {"files", "formats", "say"},
    {"observe", "announce", "numbersfile", "signals", "wrap"},
    {"quiet"},
    {"unit"},
    {"loop"},
    {"cli"},
    {"__main__"},
)

# What a pure module may import besides its like: nothing that can reach a file, a clock, a process or a log.
PURE_STANDARD_LIBRARY = {
    "__future__",
    "abc",
    "bisect",
    "collections",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "re",
    "statistics",
    "string",
    "types",
    "typing",
}
IMPURE_CALLS = {"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"}
# The clock itself, and what reads the machine's zone.
CLOCKS = {"now", "utcnow", "today", "fromtimestamp", "utcfromtimestamp"}

# Which package is imported where; a package that is not here is imported nowhere.
PACKAGES: dict[str, Callable[[str], bool]] = {
    "attrs": lambda _: True,
    "attr": lambda _: True,
    "cattrs": lambda module: module in {"records", "memory"},
    "filelock": lambda module: module not in PURE,
    "psutil": lambda module: module not in PURE,
    "rich": lambda module: module.startswith("cli."),
    "matplotlib": lambda module: module.startswith("cli."),
    "pynvml": lambda module: module == "observe.hostfacts.nvidia",
    "ckpt_reader": lambda module: module == "demo_job",
}
OPTIONAL = {"rich", "matplotlib", "pynvml"}


def module_name(path: Path) -> str:
    """``decide`` for ckpt_governor/decide.py, ``formats.torch_zip`` in a folder, the folder for its ``__init__``."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def modules(package: str) -> dict[str, Path]:
    """Every module of one package by its name."""
    return {module_name(path): path for path in sorted((ROOT / package).rglob("*.py"))}


def absolute(node: ast.ImportFrom, path: Path) -> str:
    """The full name that ``from x import y`` names, a relative one resolved."""
    if not node.level:
        return node.module or ""
    package = path.relative_to(ROOT).parts[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def imports(path: Path, nodes: Iterable[ast.AST] | None = None) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a file imports, inside functions too; of ``from x import y``, ``x.y``."""
    for node in ast.walk(ast.parse(path.read_text())) if nodes is None else nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{absolute(node, path)}.{alias.name}") for alias in node.names)


def run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """What a module does when it is imported: all but the bodies of functions and what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not for_types and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from run_at_import(node)


def imports_at_import(path: Path) -> Iterator[tuple[int, str]]:
    """As ``imports``, without those that wait inside a function."""
    return imports(path, run_at_import(ast.parse(path.read_text())))


def own_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of the modules of ckpt_governor that one of them imports."""
    known = modules(LIBRARY)
    for line, name in imports(path):
        if name.split(".")[0] != LIBRARY:
            continue
        inner = name.removeprefix(LIBRARY).lstrip(".")
        while inner and inner not in known:
            inner = inner.rpartition(".")[0]
        yield line, inner or "__init__"


def top(module: str) -> str:
    """The file or folder directly in ckpt_governor/ to which a module belongs."""
    return module.split(".")[0]


def layer(module: str) -> int:
    """How high a module stands."""
    found = [height for height, names in enumerate(LAYERS) if top(module) in names]
    assert found, f"{module} has no place in LAYERS"
    return found[0]


def place(path: Path, line: int) -> str:
    """A place as an editor opens it."""
    return f"{path.relative_to(ROOT)}:{line}"


library_modules = pytest.mark.parametrize("module", modules(LIBRARY))
pure_modules = pytest.mark.parametrize("module", sorted(PURE))
reader_modules = pytest.mark.parametrize("module", modules(READER))


def test_every_module_is_known_as_pure_or_impure():
    assert {path.stem for path in (ROOT / LIBRARY).glob("*.py")} == PURE | IMPURE


def test_every_folder_has_a_layer():
    folders = {path.parent.name for path in (ROOT / LIBRARY).glob("*/__init__.py")}
    assert folders <= set().union(*LAYERS)


@pure_modules
def test_a_pure_module_imports_only_what_is_pure(module):
    path = ROOT / LIBRARY / f"{module}.py"
    wrong = [
        f"{place(path, line)} imports {name}"
        for line, name in imports(path)
        if name.split(".")[0] not in {LIBRARY, *PACKAGES} | PURE_STANDARD_LIBRARY
    ]
    wrong += [
        f"{place(path, line)} imports {name}, which is not pure"
        for line, name in own_imports(path)
        if name not in PURE
    ]
    assert not wrong, "\n".join(wrong)


@pure_modules
def test_a_pure_module_calls_nothing_that_reads_a_file_or_a_clock(module):
    path = ROOT / LIBRARY / f"{module}.py"
    tree = ast.parse(path.read_text())
    zoned = {id(call.func) for call in ast.walk(tree) if isinstance(call, ast.Call) and names_a_zone(call)}
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in IMPURE_CALLS:
            wrong.append(f"{place(path, node.lineno)} uses {node.id}")
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS and id(node) not in zoned:
            wrong.append(f"{place(path, node.lineno)} uses .{node.attr}")
    assert not wrong, "\n".join(wrong)


def names_a_zone(call: ast.Call) -> bool:
    """Whether this is ``fromtimestamp`` with a zone; without one it reads the machine's."""
    named = len(call.args) > 1 or any(keyword.arg == "tz" for keyword in call.keywords)
    return isinstance(call.func, ast.Attribute) and call.func.attr == "fromtimestamp" and named


@library_modules
def test_imports_point_downwards(module):
    path = modules(LIBRARY)[module]
    wrong = [
        f"{place(path, line)} imports {name}"
        for line, name in own_imports(path)
        if not (
            layer(name) < layer(module)
            or top(name) == top(module)
            or {top(name), top(module)} <= PURE - {"conditions", "signs", "facts"}
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_no_imports_go_round_in_a_circle():
    graph = {
        module: {name for _, name in own_imports(path)} - {module}
        for module, path in modules(LIBRARY).items()
    }
    assert list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


@library_modules
def test_a_package_is_imported_only_where_it_belongs(module):
    path = modules(LIBRARY)[module]
    wrong = [
        f"{place(path, line)} imports {name}"
        for line, name in imports(path)
        if (package := name.split(".")[0]) not in sys.stdlib_module_names | {LIBRARY}
        and not PACKAGES.get(package, lambda _: False)(module)
    ]
    assert not wrong, "\n".join(wrong)


@library_modules
def test_an_optional_package_is_imported_only_when_it_is_used(module):
    path = modules(LIBRARY)[module]
    wrong = [
        f"{place(path, line)} imports {name}"
        for line, name in imports_at_import(path)
        if name.split(".")[0] in OPTIONAL
    ]
    assert not wrong, "\n".join(wrong)


@reader_modules
def test_the_reader_imports_nothing_of_the_library(module):
    path = modules(READER)[module]
    wrong = [f"{place(path, line)} {name}" for line, name in imports(path) if name.split(".")[0] == LIBRARY]
    assert not wrong, "\n".join(wrong)


@library_modules
def test_the_library_imports_nothing_of_the_reader(module):
    path = modules(LIBRARY)[module]
    if module == "demo_job":  # a training job like any other; it imports nothing else of the library
        assert list(own_imports(path)) == []
        return
    wrong = [f"{place(path, line)} {name}" for line, name in imports(path) if name.split(".")[0] == READER]
    assert not wrong, "\n".join(wrong)


@reader_modules
def test_the_reader_needs_only_the_standard_library_to_be_imported(module):
    path = modules(READER)[module]
    wrong = [
        f"{place(path, line)} imports {name}"
        for line, name in imports_at_import(path)
        if name.split(".")[0] not in sys.stdlib_module_names | {READER}
    ]
    assert not wrong, "\n".join(wrong)


def test_the_reader_is_one_file_that_can_be_copied():
    path = ROOT / READER / "__init__.py"
    assert [name for _, name in imports(path) if name.split(".")[0] not in sys.stdlib_module_names] == []
