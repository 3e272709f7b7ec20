"""The README shows what really happens: its commands run, its outputs are printed, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ckpt_governor.ledger import Decision, Verdict
from ckpt_governor.wording import decision_line, watching_line

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def output_block(name: str) -> str:
    """The text of a block that stands between ``<!-- output: NAME -->`` and ``<!-- end -->``."""
    match = re.search(rf"<!-- output: {name} -->\n```text\n(.*?)```\n<!-- end -->", README, re.DOTALL)
    assert match, f"README.md has no block {name}"
    return match.group(1)


def benchmark(name: str) -> ModuleType:
    """One of the benchmarks, to be asked for its bounds."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: str, cwd: Path | None = None) -> str:
    """What a command of this package prints."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, check=False, cwd=cwd, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def without_moments(text: str) -> list[str]:
    """The lines with times of day, durations, sizes and numbers taken out: what is the same in every run."""
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"\b\d+(\.\d+)?s\b", "DURATION", text)
    text = re.sub(r"\d+", "N", text)
    # Whether the last copy has a name yet when the mark is seen depends on which of them a look meets first.
    text = text.replace("the last copy, step-N.safetensors", "the last copy")
    return [re.sub(r" +", " ", line).rstrip() for line in text.strip().splitlines()]


def test_the_price_table_is_what_init_prints(tmp_path):
    printed = run(
        "ckpt_governor.cli.ctl",
        "init",
        str(tmp_path),
        "--duration",
        "4h",
        "--write-time",
        "1.1s",
        "--window",
        "none",
    )
    shown = output_block("init")
    print(printed)
    assert shown.strip("\n") in printed


def test_the_demo_prints_what_the_readme_shows():
    printed = run("ckpt_governor.cli.ctl", "demo")
    print(printed)
    assert without_moments(output_block("demo")) == without_moments(printed)


def test_the_lines_are_in_the_form_that_the_process_prints():
    lines = [
        watching_line(1, 0),
        decision_line(
            Decision(
                verdict=Verdict.SAVE,
                reason="risk.preempt",
                text="higher-priority or more urgent work can take these resources",
                at_s=0.0,
            ),
            "14:41:03",
        ),
        decision_line(
            Decision(verdict=Verdict.SKIP, reason="no-time", text="a write needs 40s, 12s left", at_s=0.0),
            "14:42:11",
        ),
    ]
    assert "\n".join(lines) in README


def test_the_recipe_is_the_tested_one():
    recipe = re.search(r"```python\n(request = None\n.*?)```", README, re.DOTALL)
    assert recipe
    assert recipe.group(1) in (ROOT / "docs" / "plain-read.md").read_text(encoding="utf-8")


def test_every_local_link_leads_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize(
    ("bench", "constant", "words"),
    [
        pytest.param("governor_cost", "MEMORY_MIB_MAX", "under {:g} MiB", id="memory"),
        pytest.param("governor_cost", "PROCESSOR_PERCENT_MAX", "under {:g} % of a core", id="processor"),
        pytest.param(
            "format_cost", "CHEAP_MS_MAX", "`torch.save` file of 4 GiB | under {:g} ms |", id="check"
        ),
        pytest.param("format_cost", "FILES", "opened in a look at {:,} unchanged ones | none |", id="look"),
    ],
)
def test_the_bounds_are_those_that_the_benchmark_checks(bench, constant, words):
    assert words.format(getattr(benchmark(bench), constant)) in README


def test_a_single_unchanged_file_that_is_opened_is_out_of_bounds():
    bench = benchmark("format_cost")
    figures = dict.fromkeys(
        ("cheap_check_ms", "shards_first_s", "shards_unchanged_ms", "unchanged_ratio", "deep_ratio"), 0.0
    )
    held = [bench.within_bounds({**figures, "unchanged_files_opened": count}) for count in (0, 1)]
    assert [one["unchanged_files_opened"] for one in held] == [True, False]
