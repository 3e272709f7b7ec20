"""Facts about the repository itself: its sizes, its words, its tests, and what CI runs."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ckpt_governor

ROOT = Path(__file__).parent.parent
LIBRARY = ("ckpt_governor", "ckpt_reader")
PYTHON_FOLDERS = (*LIBRARY, "benchmarks", "examples", "tests")
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

# What names one machine or its package index; the brackets keep this file from matching itself.
MACHINE_PATTERN = re.compile(
    r"/(?:root|home|Users)/[\w.]|file[:]//|--(?:extra-)?index[-]url|--find[-]links|--trusted[-]host"
)
# A file that may say such a word, and why.
MACHINE_EXCEPTIONS: dict[str, str] = {}

CHECK_PATTERN = re.compile(r"^(raises|warns|fail|assert\w*|check(?!_output|_call)\w*|verify\w*|expect\w*)$")


def python_files(*folders: str) -> list[Path]:
    """Every Python file in some folders."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def tracked_files() -> list[Path]:
    """Every file that git knows or would add."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file, nested ones too."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def name_of(path: Path) -> str:
    """A path as the reader of a failure wants it."""
    return str(path.relative_to(ROOT))


def test_every_python_file_says_what_it_is_for():
    silent = [
        name_of(p) for p in python_files(*PYTHON_FOLDERS) if not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert not silent, "\n".join(silent)


def test_no_file_of_the_library_is_long():
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in python_files(*LIBRARY)}
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES_MAX} == {}


def test_no_function_outside_the_tests_is_long():
    long = [
        f"{name_of(path)}:{node.lineno} {node.name}() has {lines} lines"
        for path in python_files(*LIBRARY, "benchmarks", "examples")
        for node in functions(path)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_no_file_names_a_machine_or_its_package_index():
    found = [
        f"{name_of(path)}:{number} {line.strip()[:80]}"
        for path in tracked_files()
        if name_of(path) not in MACHINE_EXCEPTIONS
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE_PATTERN.search(line)
    ]
    assert not found, "\n".join(found)


def checks_something(node: ast.AST) -> bool:
    """Whether a statement can fail on purpose."""
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    return bool(CHECK_PATTERN.match(ast.unparse(node.func).rpartition(".")[2]))


def test_every_test_checks_something():
    idle = [
        f"{name_of(path)}:{node.lineno} {node.name}()"
        for path in python_files("tests")
        for node in functions(path)
        if node.name.startswith("test_") and not any(map(checks_something, ast.walk(node)))
    ]
    assert not idle, "\n".join(idle)


def test_the_changelog_has_the_version():
    assert f"## [{ckpt_governor.__version__}]" in (ROOT / "docs" / "changelog.md").read_text()


def test_ci_calls_the_test_command_of_the_readme():
    block = re.search(r"## Build and check\n.*?```\w*\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block, "README.md has no fenced block under '## Build and check'"
    commands = [line.split("#")[0].strip() for line in block[1].splitlines()]
    assert "nox" in commands
    assert re.search(r"^step nox(\s+#.*)?$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


SKIPPING = '''"""A test that is skipped, beside one that passes."""
import pytest


def test_passes():
    pass


@pytest.mark.skip(reason="solder: no iron here")
def test_skipped():
    pass
'''


@pytest.mark.parametrize(
    ("ci", "allowed", "code"),
    [
        pytest.param("", "", 0, id="outside CI"),
        pytest.param("1", "", 1, id="in CI"),
        pytest.param("1", "flux, solder", 0, id="in CI, allowed"),
        pytest.param("1", "flux", 1, id="in CI, another one allowed"),
    ],
)
def test_a_skip_fails_the_run_in_ci_unless_it_is_allowed(tmp_path, ci, allowed, code):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(tmp_path),
            str(tmp_path),
        ],
        env={**os.environ, "CKPT_GOVERNOR_CI": ci, "CKPT_GOVERNOR_ALLOWED_SKIPS": allowed},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == code, run.stdout + run.stderr
    assert ("test_skipping.py::test_skipped: solder: no iron here" in run.stdout) == bool(code)
