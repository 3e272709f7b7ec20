"""What the host shows: free space of the volume, and what tells one run from another."""

from __future__ import annotations

import os

from ckpt_governor.facts import Volume


def volume(path: str) -> Volume | None:
    """What an ordinary user may still write where this path lies; None when it cannot be read."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    if found.f_blocks == 0:
        return None  # some FUSE file systems count nothing
    return Volume(
        free_bytes=found.f_bavail * found.f_frsize,
        total_bytes=found.f_blocks * found.f_frsize,
        free_inodes=found.f_favail if found.f_files else None,
    )


def host_name() -> str:
    """This host's name as it may stand in a file name."""
    name = os.uname().nodename
    return (
        "".join(char if char.isalnum() or char in "-_." else "-" for char in name)[:64].lstrip(".") or "host"
    )


def run_token() -> str:
    """What is the same for a governor restarted within one run, and different for another pod, boot or batch job."""
    parts = [host_name(), _boot_id()]
    parts += [os.environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT")]
    return ":".join(parts)


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(64).strip()
    except (OSError, ValueError):
        return ""
