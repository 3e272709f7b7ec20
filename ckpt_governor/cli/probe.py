"""Measures what a volume takes, by writing to it."""

from __future__ import annotations

import os
import time

from ckpt_governor.cli.view import EXIT_USAGE, Failure
from ckpt_governor.durations import format_bytes

PROBE_BYTES = 64 * 1024 * 1024
SHARE_MAX = 0.1
"""At most this share of what is free is written."""


def bytes_per_second(folder: str) -> float:
    """The throughput of one synced write into this folder; nothing stays. Raises Failure where there is no room."""
    found = os.statvfs(folder)
    if found.f_bavail * found.f_frsize * SHARE_MAX < PROBE_BYTES:
        raise Failure(f"--probe: less than {format_bytes(PROBE_BYTES / SHARE_MAX)} are free", EXIT_USAGE)
    took_s = _write_and_sync(os.path.join(folder, f".ckptctl-probe.{os.getpid()}.tmp"))
    return PROBE_BYTES / max(took_s, 1e-6)


def _write_and_sync(path: str) -> float:
    """Seconds for PROBE_BYTES onto the disk; the file has no name from its beginning on."""
    block = os.urandom(1024 * 1024)  # not zeros, which some volumes do not write
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.unlink(path)
        begun_s = time.monotonic()
        for _ in range(PROBE_BYTES // len(block)):
            left = memoryview(block)
            while left:
                left = left[os.write(handle, left) :]
        os.fsync(handle)
        return time.monotonic() - begun_s
    finally:
        os.close(handle)
