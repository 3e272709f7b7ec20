"""The reader is one file that needs nothing but Python, wherever it is copied to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import ckpt_reader

COPIED = """
import sys, save_points
now, answers = 0.0, []
save_points._process = save_points._Process(lambda: now)
for line in sys.stdin:
    now += 1.0
    print(int(save_points.should_save(sys.argv[1])), flush=True)
assert "ckpt_reader" not in sys.modules and "ckpt_governor" not in sys.modules
"""


def test_the_import_loads_nothing_outside_the_standard_library(run_python):
    run = run_python("import ckpt_reader", options=("-S", "-s", "-X", "importtime"))
    assert run.returncode == 0, run.stderr
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in run.stderr.splitlines()[1:]}
    assert "ckpt_reader" in names
    assert names - sys.stdlib_module_names == {"ckpt_reader"}


def test_the_import_asks_no_file_and_starts_no_thread(run_python, tmp_path):
    script = """
import sys, threading
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" else None)
import ckpt_reader
print([str(name) for name in opened if ".ckpt-governor" in str(name)], threading.active_count())
"""
    run = run_python(script, cwd=tmp_path)
    assert (run.stdout, run.stderr) == ("[] 1\n", "")


def test_the_file_works_alone_under_another_name(tmp_path, unit):
    shutil.copy(ckpt_reader.__file__, tmp_path / "save_points.py")
    job = subprocess.Popen(
        [sys.executable, "-S", "-s", "-c", COPIED, str(unit.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    answers = []
    for request in (None, None, 7, 7, None):
        unit.write(request)
        job.stdin.write("\n")
        job.stdin.flush()
        answers.append(job.stdout.readline())
    _, errors = job.communicate()
    assert (job.returncode, errors) == (0, "")
    assert answers == ["0\n", "0\n", "1\n", "0\n", "0\n"]


def test_only_the_call_is_public():
    assert ckpt_reader.__all__ == ["should_save"]
    public = [
        name for name, value in vars(ckpt_reader).items() if not name.startswith("_") and callable(value)
    ]
    assert set(public) - {"Callable", "suppress"} == {"should_save"}


def test_the_other_call_is_there_when_it_is_asked_for_and_costs_nothing_before(run_python):
    script = """
import sys, ckpt_reader
before = [name for name in ("ckpt_reader.manifest", "zlib", "importlib") if name in sys.modules]
from ckpt_reader import write_manifest
print(before, write_manifest is sys.modules["ckpt_reader.manifest"].write_manifest, write_manifest("gone"))
print([name for name in ("nothing", "__path_of_nothing__") if hasattr(ckpt_reader, name)])
"""
    run = run_python(script, options=("-S", "-s"))
    assert (run.stdout, run.stderr) == ("[] True False\n[]\n", "")


def test_the_file_alone_has_the_one_call(tmp_path, run_python):
    shutil.copy(ckpt_reader.__file__, tmp_path / "save_points.py")
    script = "import save_points; print(hasattr(save_points, 'write_manifest'), save_points.should_save(final=True))"
    run = run_python(script, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path)
    assert (run.stdout, run.stderr) == ("False True\n", "")


def test_it_says_that_it_is_typed():
    assert (Path(ckpt_reader.__file__).parent / "py.typed").exists()
