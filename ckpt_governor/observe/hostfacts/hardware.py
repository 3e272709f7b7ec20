"""Errors of memory, processors, disks and links that this host counts and any user may read.

One counter is enough to be read: what is told is "the counters that are here stay flat". On a virtual machine that is
often the machine-check row and the carrier of its network interface alone; a hypervisor passes on the memory failures
that concern the guest as machine checks, so the row is a counter there, too, and zero is its value.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from attrs import evolve

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Moment, Report
from ckpt_governor.observe.hostfacts.sysroot import Damage, SysRoot
from ckpt_governor.observe.source import failure, success
from ckpt_governor.signs import Count

CORRECTED_PER_HOUR_MAX = 100.0
INTERRUPTS_BYTES_MAX = 32 * 1024 * 1024
"""A row is about 11 bytes for each processor, and a large host has thousands of rows; more is not read."""
_ROW_BYTES_MAX = 64 * 1024
_EDAC = "/sys/devices/system/edac/mc"
_NET = "/sys/class/net"
_HEX = re.compile(r"0x[0-9a-f]{1,16}")


class HardwareSource:
    """All error counters of this host; their names stay the same while it runs."""

    name = "hardware"
    covers: tuple[Condition, ...] = (Condition.HARDWARE,)

    def __init__(self, *, sysroot: str = "/") -> None:
        self.every_s = 10.0
        self._root = SysRoot(sysroot)

    def read(self, moment: Moment) -> Report:
        """The counters that can be read; failed when there is none, which is not the same as no errors."""
        counts = (*self._memory(), *self._machine_checks(), *self._disks(), *self._links())
        if not counts:
            return failure(self, moment, "no error counters on this host")
        return evolve(success(self, moment), counts=counts)

    def _memory(self) -> list[Count]:
        """EDAC: each memory controller counts corrected and uncorrected errors."""
        found = []
        for controller in self._root.names(_EDAC, r"mc[0-9]+"):
            for kind, per_hour_max, text in (
                ("ue", 0.0, "uncorrected memory errors"),
                ("ce", CORRECTED_PER_HOUR_MAX, "corrected memory errors"),
            ):
                with suppress(OSError, Damage):
                    value = self._root.number(f"{_EDAC}/{controller}/{kind}_count")
                    found.append(
                        _count(f"edac.{controller}.{kind}", value, f"{text} ({controller})", per_hour_max)
                    )
        return found

    def _machine_checks(self) -> list[Count]:
        """The row MCE of /proc/interrupts, summed over the processors; MCP counts polls, which are no errors."""
        try:
            row = self._interrupt_row(b"MCE:")
        except OSError:
            return []
        values = []
        for word in row:
            if not word.isdigit():
                break
            values.append(int(word))
        return [_count("mce", sum(values), "machine check exceptions")] if values else []

    def _interrupt_row(self, label: bytes) -> list[bytes]:
        """The words after a label, read row by row: the whole table may be megabytes. Raises OSError."""
        left = INTERRUPTS_BYTES_MAX
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(self._root.path("/proc/interrupts"), flags), "rb") as file:
            while left > 0 and (row := file.readline(_ROW_BYTES_MAX)):
                left -= len(row)
                if row.lstrip().startswith(label):
                    return row.split()[1:]
        return []

    def _disks(self) -> list[Count]:
        """Failed commands of SCSI disks; drives with a medium that is taken out fail for want of it."""
        found = []
        for disk in self._root.names("/sys/block", r"[\w!.-]+"):
            with suppress(OSError, Damage):
                text = self._root.text(f"/sys/block/{disk}/device/ioerr_cnt").strip()
                removable = self._root.number(f"/sys/block/{disk}/removable") if _HEX.fullmatch(text) else 1
                if removable == 0:
                    found.append(
                        _count(f"disk.{disk}.ioerr", int(text, 16), f"failed commands of disk {disk}")
                    )
        return found

    def _links(self) -> list[Count]:
        """How often the carrier of an interface with a device of its own came or went; bridges and pairs have none."""
        found = []
        for link in self._root.names(_NET, r"[\w.:@-]+"):
            if os.path.exists(self._root.path(f"{_NET}/{link}/device")):
                with suppress(OSError, Damage):
                    value = self._root.number(f"{_NET}/{link}/carrier_changes")
                    found.append(_count(f"net.{link}.carrier", value, f"carrier changes of {link}"))
        return found


def _count(name: str, value: int, text: str, per_hour_max: float = 0.0) -> Count:
    return Count(name=name, condition=Condition.HARDWARE, value=value, per_hour_max=per_hour_max, text=text)
