"""What a kubelet looks at before it evicts pods: the node's memory, and its file system with its inodes."""

from __future__ import annotations

import os

from attrs import evolve

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Moment, Report
from ckpt_governor.observe.hostfacts.sysroot import Damage, SysRoot, host_memory, why_not
from ckpt_governor.observe.source import failure, success
from ckpt_governor.signs import Node

KUBERNETES_WORD = "KUBERNETES_SERVICE_HOST"
"""Kubernetes gives every container this word, so outside of it nothing evicts."""


class NodeSource:
    """The node below the pod. A file system that hangs holds up only the thread that reads this source."""

    name = "node"
    covers: tuple[Condition, ...] = (Condition.EVICT,)

    def __init__(
        self, *, node_path: str | None = None, in_kubernetes: bool | None = None, sysroot: str = "/"
    ) -> None:
        """``node_path`` lies on the node's own file system: an emptyDir, or the container's root, which is the default.

        ``in_kubernetes`` None: the environment tells.
        """
        self.every_s = 5.0
        self._node_path = sysroot if node_path is None else node_path
        self._in_kubernetes = KUBERNETES_WORD in os.environ if in_kubernetes is None else in_kubernetes
        self._root = SysRoot(sysroot)

    def read(self, moment: Moment) -> Report:
        """The node's shares; what cannot be read is None, and failed when that is all of it."""
        if not self._in_kubernetes:
            return evolve(success(self, moment), node=Node(evicts=False))
        wrong: list[str] = []
        available: int | None = None
        total: int | None = None
        try:
            available, total = host_memory(self._root)
        except (OSError, Damage) as error:
            wrong.append(why_not(error, "/proc/meminfo"))
        disk, inodes = self._shares(wrong)
        if total is None and disk is None and inodes is None:
            return failure(self, moment, "; ".join(wrong))
        node = Node(
            memory_available_bytes=available,
            memory_total_bytes=total,
            disk_free_share=disk,
            inodes_free_share=inodes,
        )
        return evolve(success(self, moment), node=node)

    def _shares(self, wrong: list[str]) -> tuple[float | None, float | None]:
        """Free shares of blocks and inodes, as an ordinary user has them."""
        try:
            found = os.statvfs(self._node_path)
        except OSError as error:
            wrong.append(why_not(error, "the node's file system"))
            return None, None
        if not found.f_blocks:
            wrong.append("the node's file system counts no blocks")
        return (
            found.f_bavail / found.f_blocks if found.f_blocks else None,
            found.f_favail / found.f_files if found.f_files else None,
        )
