"""The Xids after which a job goes on and the loss is likely: what is counted of an NVIDIA device's messages. Pure."""

from __future__ import annotations

PRECURSORS: dict[int, str] = {
    63: "a row remap is recorded",
    92: "a high rate of corrected memory errors",
    94: "a contained memory error",
    95: "an uncontained memory error",
    154: "the recovery action has changed",
}
"""Others either come too late for a write (79, 48, 74) or are mostly errors of the program (13, 31, 43)."""
CORRECTED_PER_HOUR_MAX = 100.0
"""More corrected memory errors of one device in an hour are a sign."""


def xid_text(device: str, xid: int | None) -> str:
    """What an increase of the count means, in words; without an Xid what is waited for."""
    if xid is None:
        return f"{device} reports an Xid after which it is likely to fail"
    return f"{device} reports Xid {xid}: {PRECURSORS[xid]}"
