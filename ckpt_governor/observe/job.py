"""What job.json and the process table tell of the job."""

from __future__ import annotations

from ckpt_governor.facts import FailedWrite, Job, Moment
from ckpt_governor.observe.clock import DeadlineClock
from ckpt_governor.records import JobRecord
from ckpt_governor.signs import Memory


class JobEye:
    """Follows the job's process; it counts as gone only when it was seen alive here before."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._created_s: float | None = None
        self._started: tuple[float, float] | None = None
        self._dates = DeadlineClock()

    def look(self, record: JobRecord | None, moment: Moment) -> Job:
        """The job as far as it is known."""
        if record is None:
            return Job()
        started_s = None
        if record.started_at is not None:
            started_s = self._started_s(record.started_at, moment)
        failed = None
        if record.failed_bytes is not None:
            failed = FailedWrite(bytes=record.failed_bytes, errno=record.failed_errno or 0)
        ends_s = None
        if record.ends_at is not None:
            ends_s = self._dates.steady_s("ends_at", record.ends_at, moment)
        told = record.pid is not None or record.started_at is not None
        return Job(
            started_s=started_s,
            alive=self._alive(record.pid),
            write_s=record.write_s,
            bytes=record.bytes,
            ranks=record.ranks,
            ends_s=ends_s,
            restarts=record.restarts,
            failed=failed,
            memory=_memory(record),
            identity=f"{record.pid}:{record.started_at}" if told else "",
        )

    def _started_s(self, started_at: float, moment: Moment) -> float:
        """The steady moment of the job's start, fixed at first sight so that a clock step does not move it."""
        if self._started is None or self._started[0] != started_at:
            self._started = (started_at, min(started_at - moment.wall_minus_steady_s, moment.now_s))
        return self._started[1]

    def _alive(self, pid: int | None) -> bool | None:
        if pid is None or pid <= 0:
            return None
        created_s = _created_s(pid)
        if pid != self._pid:
            # Another process, or one of another PID namespace: only a sighting makes its absence a proof.
            self._pid, self._created_s = pid, created_s
        elif self._created_s is None:
            self._created_s = created_s
        if self._created_s is None:
            return None
        return created_s == self._created_s


def _memory(record: JobRecord) -> Memory | None:
    """Its memory, where it tells both how much it uses and how much it may."""
    if record.memory_current is None or not record.memory_max:
        return None
    return Memory(used_bytes=record.memory_current, limit_bytes=record.memory_max, source="job.json")


def _created_s(pid: int) -> float | None:
    """When the process was created; None when there is none with this number, or only its remains."""
    import psutil  # imported late: only a job that gives its pid needs it

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return float(process.create_time())
    except (psutil.Error, OverflowError, ValueError):
        return None
