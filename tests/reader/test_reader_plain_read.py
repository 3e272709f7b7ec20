"""The recipes of docs/plain-read.md, taken out of the page and run as real processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "plain-read.md").read_text()
BLOCKS = {
    language: re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    for language in ("python", "sh", "c")
}
LURE = '"request":{"id":99,"kind":"save"} \\"request\\":{"id":98, · '  # what a sentence or a name may hold

PYTHON_JOB = """
import sys

{setup}

def save():
    (unit / f"step-{{served}}.pt").touch(exist_ok=False)

for line in sys.stdin:
{save_point}
    print(flush=True)
"""

SH_JOB = """
set -eu
{setup}
save() {{
    set -C
    : >"$unit/step-$served.pt"
}}
while read -r line; do
{save_point}
    echo
done
"""

C_JOB = """
{setup}
int main(void) {{
    char line[16], name[64];
    unsigned long long served = 0;
    while (fgets(line, sizeof line, stdin)) {{
        if (save_asked("checkpoints/.ckpt-governor/state.json", &served)) {{
            snprintf(name, sizeof name, "checkpoints/step-%llu.pt", served);
            FILE *copy = fopen(name, "wx");
            if (!copy) return 1;
            fclose(copy);
        }}
        puts("");
        fflush(stdout);
    }}
    return 0;
}}
"""


def python_job(folder):
    setup, save_point = BLOCKS["python"]
    path = folder / "job.py"
    path.write_text(PYTHON_JOB.format(setup=setup, save_point=textwrap.indent(save_point, "    ")))
    return [sys.executable, "-W", "error", str(path)]


def sh_job(folder):
    setup, save_point, _ = BLOCKS["sh"]
    path = folder / "job.sh"
    path.write_text(SH_JOB.format(setup=setup, save_point=textwrap.indent(save_point, "    ")))
    return ["sh", str(path)]


def c_job(folder):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("cc: no C compiler here")
    path = folder / "job.c"
    path.write_text(C_JOB.format(setup=BLOCKS["c"][0]))
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", str(folder / "job"), str(path)]
    assert subprocess.run(command, check=False).returncode == 0
    return [str(folder / "job")]


class PlainJob:
    """A recipe in a loop: one line in is one save point."""

    def __init__(self, command, folder):
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        )

    def step(self):
        """Reach one save point."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"\n", self.process.stderr.read().decode()


@pytest.fixture(params=[python_job, sh_job, c_job], ids=["python", "sh", "c"])
def job(request, unit):
    folder = unit.path.parent
    plain = PlainJob(request.param(folder), folder)
    yield plain
    _, errors = plain.process.communicate()
    assert (plain.process.returncode, errors) == (0, b"")


def copies(unit):
    return sorted(path.name for path in unit.path.glob("*.pt"))


def test_a_recipe_writes_one_copy_for_every_request(job, unit):
    for request, expected in [
        (None, []),
        (7, ["step-7.pt"]),
        (None, ["step-7.pt"]),
        (8, ["step-7.pt", "step-8.pt"]),
        (1764424863000, ["step-1764424863000.pt", "step-7.pt", "step-8.pt"]),
    ]:
        unit.write(request)
        for _ in range(3):
            job.step()
        assert copies(unit) == expected


def test_a_recipe_does_nothing_without_a_file(job, unit):
    job.step()
    shutil.rmtree(unit.control)
    job.step()
    assert copies(unit) == []


@pytest.mark.parametrize("data", [b"", b"{", b'{"v":1,"request":null}', b"\0\xff" * 100], ids=repr)
def test_a_recipe_takes_no_copy_from_a_file_that_asks_for_none(job, unit, data):
    unit.put("state.json", data)
    job.step()
    unit.write(7)
    job.step()
    assert copies(unit) == ["step-7.pt"]


@pytest.mark.parametrize("escaped", [True, False], ids=["ASCII", "UTF-8"])
def test_no_sentence_and_no_name_leads_a_recipe_astray(job, unit, escaped):
    for request, expected in [(None, []), (7, ["step-7.pt"]), (None, ["step-7.pt"])]:
        state = unit.state(request, newest={"name": LURE}, conditions={LURE: 1})
        state["decision"]["text"] = LURE
        unit.put("state.json", json.dumps(state, separators=(",", ":"), ensure_ascii=escaped))
        job.step()
        assert copies(unit) == expected


def test_the_mark_of_the_recipe_is_the_helper_s(unit):
    unit.glue.mkdir()
    script = f'unit="$1"\n{BLOCKS["sh"][2]}'
    done = subprocess.run(
        ["sh", "-c", script, "sh", str(unit.path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr, unit.left()) == (0, "", ["ending"])


def test_the_python_recipe_is_as_short_as_the_page_says():
    assert "six lines" in PAGE
    assert len(BLOCKS["python"][1].splitlines()) == 6
