"""What NVIDIA's management library says of the devices that this process may see; it is optional.

A process without the device files, such as a sidecar that asked for no accelerator, has no library or no device, and
then nothing is known. Xids are events: those before this process began are not seen.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from attrs import evolve, frozen

from ckpt_governor.conditions import Condition
from ckpt_governor.facts import Moment, Report
from ckpt_governor.observe.hostfacts.xids import CORRECTED_PER_HOUR_MAX, PRECURSORS, xid_text
from ckpt_governor.observe.source import failure, success
from ckpt_governor.records import short
from ckpt_governor.signs import Count, Heat

DEVICES_MAX = 64
EVENTS_MAX = 256
"""More events than this wait for the next read."""
SLOWDOWNS = {0x40: "hardware thermal slowdown", 0x80: "hardware power brake"}
"""Bits of the reasons for lower clocks; a cap set by software is normal and left out."""
ACTIONS = {
    1: "a reset of the device",
    2: "a reboot of the node",
    3: "draining its peers",
    4: "draining and a reset of the device",
    5: "recovery of its IMEX domain",
    6: "a reset of the bus",
    7: "a reboot of the system",
}
_XID_EVENT = 0x8
_RECOVERY_FIELD = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, which older modules have no name for
_SUCCESS = 0
_UNSUPPORTED = frozenset({2, 3, 4, 6, 13})
"""Invalid argument, not supported, no permission, not found, function not found: this one thing cannot be told."""
_TIMEOUT = 10


class _Unsupported(Exception):
    """This device, driver or module cannot tell this; everything else goes on."""


@frozen(kw_only=True)
class _Device:
    """One device since the library was opened."""

    handle: Any
    shown: str
    identity: str
    """Its UUID: indexes shift when a device falls off the bus."""


class NvmlSource:
    """All devices that the library shows; opened at the first read and again after an error."""

    name = "nvml"
    covers: tuple[Condition, ...] = (Condition.DEVICE, Condition.THERMAL)

    def __init__(self, *, module: Any = None) -> None:
        """``module`` stands for ``pynvml``, which is imported at the first read."""
        self.every_s = 5.0
        self._module = module
        self._devices: tuple[_Device, ...] | None = None
        self._events: Any = None
        self._heard: set[str] = set()
        self._xids: dict[str, tuple[int, int | None]] = {}

    def read(self, moment: Moment) -> Report:
        """Counts and slowdowns; failed without library or device, and while a device does not answer."""
        try:
            if self._devices is None:
                self._open()
            return self._told(moment)
        except ImportError:
            return failure(
                self, moment, "nvidia-ml-py is not installed: pip install 'checkpoint-governor[nvidia]'"
            )
        except Exception as error:  # the library is foreign: whatever it raises, the loop goes on
            self._close()
            return failure(self, moment, f"NVML: {short(error) or type(error).__name__}")

    def _open(self) -> None:
        """Finds the devices and listens for their Xids. Raises what the library raises, and LookupError."""
        if self._module is None:
            import pynvml

            self._module = pynvml
        self._module.nvmlInit()
        self._devices = ()  # opened: an error from here on closes it
        total = min(int(self._module.nvmlDeviceGetCount()), DEVICES_MAX)
        if total == 0:
            raise LookupError("no device is visible to this process")
        self._devices = tuple(self._device(index) for index in range(total))
        self._heard.clear()
        with suppress(_Unsupported):
            self._events = self._call("nvmlEventSetCreate")
            for device in self._devices:
                with suppress(_Unsupported):
                    self._call("nvmlDeviceRegisterEvents", device.handle, _XID_EVENT, self._events)
                    self._heard.add(device.identity)

    def _close(self) -> None:
        """Lets go of the library, so that the next read begins anew."""
        if self._devices is None:
            return
        self._devices = None
        with suppress(Exception):
            if self._events is not None:
                self._module.nvmlEventSetFree(self._events)
        self._events = None
        with suppress(Exception):
            self._module.nvmlShutdown()

    def _device(self, index: int) -> _Device:
        handle = self._module.nvmlDeviceGetHandleByIndex(index)
        shown = f"gpu{index}"
        return _Device(handle=handle, shown=shown, identity=self._uuid(handle) or shown)

    def _uuid(self, handle: Any) -> str:
        try:
            found = self._call("nvmlDeviceGetUUID", handle)
        except _Unsupported:
            return ""
        return found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)

    def _call(self, name: str, *arguments: Any) -> Any:
        """One function of the library. Raises _Unsupported, or what tells that the device does not answer."""
        function = getattr(self._module, name, None)
        if function is None:
            raise _Unsupported(name)
        try:
            return function(*arguments)
        except self._module.NVMLError as error:
            if getattr(error, "value", None) in _UNSUPPORTED:
                raise _Unsupported(name) from None
            raise

    def _told(self, moment: Moment) -> Report:
        """The report covers only what at least one device tells: no word of an accelerator is not a 0."""
        devices = self._devices or ()
        self._hear()
        counts = tuple(count for device in devices for count in self._counts(device))
        heat = self._heat(devices)
        covers = (Condition.DEVICE,) * bool(counts) + (Condition.THERMAL,) * (heat is not None)
        if not covers:
            return failure(self, moment, "NVML: no device tells of errors or slowdowns")
        return evolve(success(self, moment), covers=covers, counts=counts, heat=heat)

    def _counts(self, device: _Device) -> list[Count]:
        found: list[Count] = []
        with suppress(_Unsupported):
            pending = self._call("nvmlDeviceGetRemappedRows", device.handle)[2]
            found.append(
                _count(
                    f"nvml.{device.identity}.remap",
                    int(bool(pending)),
                    f"{device.shown} waits for a row remap",
                )
            )
        with suppress(_Unsupported):
            action = self._recovery_action(device)
            text = (
                f"{device.shown} asks for {ACTIONS.get(action, f'recovery action {action}')}"
                if action
                else ""
            )
            found.append(
                _count(
                    f"nvml.{device.identity}.recovery",
                    int(bool(action)),
                    text or f"{device.shown} asks for nothing",
                )
            )
        with suppress(_Unsupported):
            value = int(
                self._call("nvmlDeviceGetTotalEccErrors", device.handle, 0, 1)
            )  # corrected, aggregate
            text = f"corrected memory errors of {device.shown}"
            found.append(_count(f"nvml.{device.identity}.ecc", value, text, CORRECTED_PER_HOUR_MAX))
        if device.identity in self._heard:
            seen, latest = self._xids.get(device.identity, (0, None))
            found.append(_count(f"nvml.{device.identity}.xid", seen, xid_text(device.shown, latest)))
        return found

    def _recovery_action(self, device: _Device) -> int:
        (field,) = self._call("nvmlDeviceGetFieldValues", device.handle, [_RECOVERY_FIELD])
        if field.nvmlReturn != _SUCCESS:
            raise _Unsupported
        return int(field.value.uiVal)

    def _hear(self) -> None:
        """Takes the Xids that have come, without waiting for one."""
        if not self._heard:
            return
        for _ in range(EVENTS_MAX):
            try:
                event = self._call("nvmlEventSetWait_v2", self._events, 0)
            except _Unsupported:
                self._heard.clear()
                return
            except self._module.NVMLError as error:
                if getattr(error, "value", None) == _TIMEOUT:
                    return
                raise
            xid = int(event.eventData)
            if int(event.eventType) & _XID_EVENT and xid in PRECURSORS:
                identity = self._uuid(event.device)
                seen, _latest = self._xids.get(identity, (0, None))
                self._xids[identity] = (seen + 1, xid)

    def _heat(self, devices: tuple[_Device, ...]) -> Heat | None:
        """Whether a device slows itself down; None when none tells."""
        told, why = False, []
        for device in devices:
            with suppress(_Unsupported):
                reasons = self._clock_reasons(device)
                told = True
                why += [f"{device.shown}: {text}" for bit, text in SLOWDOWNS.items() if reasons & bit]
        return Heat(slowed=bool(why), why="; ".join(why)) if told else None

    def _clock_reasons(self, device: _Device) -> int:
        try:
            return int(self._call("nvmlDeviceGetCurrentClocksEventReasons", device.handle))
        except _Unsupported:  # the older name
            return int(self._call("nvmlDeviceGetCurrentClocksThrottleReasons", device.handle))


def _count(name: str, value: int, text: str, per_hour_max: float = 0.0) -> Count:
    return Count(name=name, condition=Condition.DEVICE, value=value, per_hour_max=per_hour_max, text=text)
