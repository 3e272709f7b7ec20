"""Several ranks: the plain helper answers all the same, and says once that the adapters exist."""

from __future__ import annotations

import pytest

import ckpt_reader

RANKS = ["WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"]
CALLS = """
import sys, ckpt_reader
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(lambda _: ckpt_reader.should_save(sys.argv[1]), range(50))))
"""


@pytest.mark.parametrize("name", RANKS)
def test_with_several_ranks_it_warns_once_and_names_what_makes_them_agree(unit, run_python, name):
    run = run_python(CALLS, unit.path, env={name: "8"})
    assert run.stdout == "0\n"
    assert len(run.stderr.splitlines()) == 1
    assert f"{name}=8" in run.stderr
    assert "ckpt_reader.torch" in run.stderr


@pytest.mark.parametrize("value", ["1", "0", "", "many", "-3", "2.5"])
def test_with_one_rank_it_says_nothing(unit, run_python, value):
    run = run_python(CALLS, unit.path, env=dict.fromkeys(RANKS, value))
    assert (run.stdout, run.stderr) == ("0\n", "")


def test_with_several_ranks_it_answers(should_save, unit, monkeypatch, capfd):
    monkeypatch.setenv("WORLD_SIZE", "8")
    for _ in range(2):
        unit.write()
        assert should_save(unit.path) is False
    unit.write(7)
    assert [should_save(unit.path), should_save(unit.path)] == [True, False]
    assert capfd.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("stderr", [None, object()], ids=["none", "unusable"])
def test_without_a_stderr_it_answers(should_save, unit, monkeypatch, stderr):
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setattr(ckpt_reader.sys, "stderr", stderr)
    answers = []
    for request in (None, None, None, 7):
        unit.write(request)
        answers.append(should_save(unit.path))
    assert answers == [False, False, False, True]
