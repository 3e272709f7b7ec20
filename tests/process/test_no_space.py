"""A volume that has no room for one more copy is not filled by a write that was asked for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress

import pytest
from formats.making import torch_zip
from process.harness import Unit, wait_until

pytestmark = pytest.mark.needs_root

MIB = 1 << 20


@pytest.fixture
def small_unit(tmp_path, request):
    """A unit on a volume of 8 MiB, or of as many as the test says."""
    path = tmp_path / "volume"
    path.mkdir()
    size = f"size={getattr(request, 'param', 8)}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(path)], check=True)
    yield Unit(tmp_path, path)
    subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path):
    """Takes all that is left of the volume."""
    with suppress(OSError), open(path, "wb", buffering=0) as file:
        while file.write(b"\0" * 4096):
            pass


def test_no_write_is_asked_for_before_there_is_room_for_it(small_unit, govern, train):
    unit = small_unit
    governor = govern(of=unit)
    job = train("helper", "--bytes", str(2 * MIB), of=unit)
    unit.drop("risk.preempt")
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the first copy was never judged")
    filler = unit.path / "dataset.log"
    filler.write_bytes(b"\0" * (5 * MIB))
    free = os.statvfs(unit.path).f_bavail * os.statvfs(unit.path).f_frsize

    unit.drop("risk.maintenance")
    line = governor.said("skip", "no-space")
    assert re.search(
        r"risk\.maintenance: a copy needs 2\.2 MB, [\d.]+ kB free \([\d.]+ kB kept in reserve\)$", line
    )
    unit.looked_at()
    assert unit.nothing_is_asked()
    assert (len(job.events("begin")), len(governor.lines("skip", "no-space"))) == (1, 1)
    assert os.statvfs(unit.path).f_bavail * os.statvfs(unit.path).f_frsize == pytest.approx(
        free, abs=64 * 1024
    )
    assert unit.ack("risk.maintenance") == "unfit"  # nobody waits for it; it is served all the same

    filler.unlink()
    governor.said("save", "risk.maintenance")
    job.wrote(2)
    wait_until(lambda: unit.ack("risk.maintenance") == "served", "the open cause is not served")
    assert (len(unit.whole()), unit.half()) == (2, [])


def test_a_volume_that_could_never_hold_a_copy_is_called_infeasible(small_unit, govern):
    unit = small_unit
    unit.control.mkdir()
    unit.glue.mkdir()
    unit.drop("job.json", f'{{"v": 1, "bytes": {9 * MIB}}}')
    governor = govern(of=unit)
    unit.drop("risk.preempt")
    line = governor.said("infeasible", "no-space")
    assert "the whole volume holds 8" in line
    unit.looked_at()
    assert unit.nothing_is_asked()


def test_a_write_that_fills_the_volume_is_repaired_when_there_is_room(small_unit, govern, train):
    unit = small_unit
    governor = govern("--settle", "2s", of=unit)
    job = train("helper", "--bytes", str(3 * MIB), "--write-s", "2", of=unit)
    filler = unit.path / "dataset.log"
    unit.drop("risk.preempt")
    wait_until(lambda: job.events("begin"), "no write began")
    filler.write_bytes(b"\0" * (6 * MIB))
    (failed,) = wait_until(lambda: job.events("failed"), "the write fitted")
    governor.said("repair")  # its state cannot be written now, its lines are
    assert governor.running()
    filler.unlink()
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice is not served")
    assert (unit.half(), len(governor.lines("repair"))) == ([failed["name"]], 1)


def test_a_governor_that_cannot_write_its_state_goes_on_when_it_can_again(small_unit, govern, train):
    unit = small_unit
    governor = govern(of=unit)
    job = train(of=unit)
    filler = unit.path / "dataset.log"
    fill(filler)
    beat = unit.state()["beat"]
    governor.said("unknown", "blind", patience_s=60)
    filler.unlink()
    wait_until(lambda: unit.state()["beat"] > beat + 1, "no beat any more")
    unit.drop("risk.preempt")
    job.wrote(1)
    wait_until(lambda: unit.ack("risk.preempt") == "served", "the notice was never acknowledged")
    assert len(governor.lines("unknown", "blind")) == 1


@pytest.mark.parametrize("small_unit", [12], indirect=True)
def test_no_write_is_asked_for_after_one_that_the_volume_cut_and_the_older_copy_stays_sound(
    small_unit, govern
):
    """ultralytics #5793: the volume was full in the middle of last.pt, which could not be read then."""
    unit = small_unit
    governor = govern("--settle", "1s", of=unit)
    whole = torch_zip({"data.pkl": b"\x80\x02}q\x00.", "data/0": b"w" * (5 * MIB)})
    (unit.path / "best.pt").write_bytes(whole)
    wait_until(lambda: (unit.state()["newest"] or {}).get("sound"), "best.pt was never judged")
    (unit.path / "last.pt").write_bytes(whole[: 3 * MIB])
    line = governor.said("skip", "no-space")
    assert re.search(r"broken: a copy needs [\d.]+ MB, [\d.]+ MB free", line)
    unit.drop("risk.request")
    wait_until(lambda: len(governor.lines("skip", "no-space")) > 1, "the request was not refused")
    unit.looked_at()
    newest = unit.state()["newest"]
    assert (newest["name"], newest["sound"], unit.nothing_is_asked()) == ("last.pt", False, True)
    assert (governor.lines("save"), governor.lines("repair")) == ([], [])
    governor.send(signal.SIGINT)
    assert governor.ended() == 0
    assert unit.receipt()["newest_sound"] == "best.pt"
