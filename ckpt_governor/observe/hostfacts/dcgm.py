"""What the page of a DCGM exporter says of the accelerators of its host. The address is a person's choice.

An Xid there is the number of the last one, not a count: a change to a precursor counts as one, and the same one again
cannot be seen. The first number that is seen happened before, so it counts as none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from attrs import evolve, frozen

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Moment, Report
from ckpt_governor.observe.hostfacts.xids import CORRECTED_PER_HOUR_MAX, PRECURSORS, xid_text
from ckpt_governor.observe.source import failure, success
from ckpt_governor.records import short
from ckpt_governor.signs import Count

PAGE_BYTES_MAX = 1024 * 1024
"""A row has about 400 bytes of labels, and 8 devices cut in 7 pieces have some thousand rows: 64 KiB are too few."""
DEVICES_MAX = 256
XID = "DCGM_FI_DEV_XID_ERRORS"
REMAP = "DCGM_FI_DEV_ROW_REMAP_PENDING"
CORRECTED = "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL"
FIELDS = (XID, REMAP, CORRECTED)
_NAMES = {
    XID: XID,
    "DCGM_FI_DEV_XID_ERROR": XID,  # so called since exporter 4.9
    REMAP: REMAP,
    CORRECTED: CORRECTED,
}
_VALUE_MAX = 2.0**53
"""DCGM writes numbers near the largest of 64 bits where it has none."""
_ROW_LENGTH_MAX = 16 * 1024
_ROW = re.compile(r"([A-Za-z_:][\w:]*)\{(.*)\}[ \t]+(\S+)(?:[ \t]+\S+)?", re.ASCII)
_LABEL = re.compile(r'([A-Za-z_]\w{0,63})="((?:[^"\\]|\\.)*)"', re.ASCII)


@frozen(kw_only=True)
class Sample:
    """One value of one device, or of one piece of it."""

    name: str
    """The field's older name."""
    device: str
    """Stays the same from page to page: the UUID, or the index, and the piece where it is cut."""
    shown: str
    value: int


def samples(page: str) -> Iterator[Sample]:
    """The values that count on a page in the text format of Prometheus; rows that say nothing are left out. Pure."""
    for line in page.splitlines():
        if len(line) > _ROW_LENGTH_MAX or not line.startswith(tuple(_NAMES)):
            continue
        row = _ROW.fullmatch(line.rstrip())
        if row is None or row[1] not in _NAMES:
            continue
        labels = dict(_LABEL.findall(row[2]))
        gpu, uuid, piece = (labels.get(name, "")[:64] for name in ("gpu", "UUID", "GPU_I_ID"))
        value = _whole(row[3])
        if value is None or not (gpu or uuid):
            continue
        cut = f"/{piece}" if piece else ""
        shown = f"gpu{gpu}{cut}" if re.fullmatch(r"[0-9]{1,4}(?:/[0-9]{1,4})?", gpu + cut) else "a gpu"
        yield Sample(name=_NAMES[row[1]], device=f"{uuid or gpu}{cut}", shown=shown, value=value)


def _whole(text: str) -> int | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if 0.0 <= value < _VALUE_MAX and value == int(value) else None


class DcgmSource:
    """The page of one exporter, read by a client that is bounded in time and size."""

    name = "dcgm"
    covers: tuple[Condition, ...] = (Condition.DEVICE,)

    def __init__(self, *, fetch: Callable[[], bytes]) -> None:
        """``fetch`` gives the page within a second and ``PAGE_BYTES_MAX``, or raises what says why not."""
        self.every_s = 10.0
        self._fetch = fetch
        self._last: dict[str, int] = {}
        self._xids: dict[str, tuple[int, int | None]] = {}
        self._known: set[str] = set()

    def read(self, moment: Moment) -> Report:
        """The counts of all devices; failed when the page cannot be had or names none of the fields."""
        try:
            page = self._fetch()
        except (
            Exception
        ) as error:  # the client is injected, and whatever it meets is a page that was not read
            return failure(
                self, moment, f"the exporter's page cannot be read: {short(error) or type(error).__name__}"
            )
        if len(page) > PAGE_BYTES_MAX:
            return failure(self, moment, f"the exporter's page is longer than {PAGE_BYTES_MAX} bytes")
        found: dict[tuple[str, str], Sample] = {}
        for sample in samples(page.decode("utf-8", "replace")):
            found.setdefault(
                (sample.name, sample.device), sample
            )  # a shared device has a row for each sharer
            if len(found) > len(FIELDS) * DEVICES_MAX:
                return failure(self, moment, f"the exporter's page names more than {DEVICES_MAX} devices")
        if not found:
            why = f"the page has none of {', '.join(FIELDS)}: is it a DCGM exporter's?"
            return failure(self, moment, why)
        counts = tuple(self._count(sample) for sample in found.values())
        self._remember({sample.device for sample in found.values()})
        return evolve(success(self, moment), counts=counts)

    def _remember(self, devices: set[str]) -> None:
        """Bounded, whatever names the pages bring."""
        self._known |= devices
        if len(self._known) > 4 * DEVICES_MAX:
            self._known = devices
            self._last.clear()
            self._xids.clear()

    def _count(self, sample: Sample) -> Count:
        identity = f"dcgm.{sample.device}"
        if sample.name == REMAP:
            text = f"{sample.shown} waits for a row remap"
            return _count(f"{identity}.remap", min(sample.value, 1), text)
        if sample.name == CORRECTED:
            text = f"corrected memory errors of {sample.shown}"
            return _count(f"{identity}.ecc", sample.value, text, CORRECTED_PER_HOUR_MAX)
        return self._xid(f"{identity}.xid", sample)

    def _xid(self, identity: str, sample: Sample) -> Count:
        seen, latest = self._xids.get(identity, (0, None))
        # A device that was known without this row has had no Xid until now.
        before = self._last.get(identity, 0 if sample.device in self._known else sample.value)
        if before != sample.value and sample.value in PRECURSORS:
            seen, latest = seen + 1, sample.value
        self._last[identity] = sample.value
        self._xids[identity] = (seen, latest)
        return _count(identity, seen, xid_text(sample.shown, latest))


def _count(name: str, value: int, text: str, per_hour_max: float = 0.0) -> Count:
    return Count(name=name, condition=Condition.DEVICE, value=value, per_hour_max=per_hour_max, text=text)
