"""Hypothesis profiles of the core's tests: a bounded run by default, a long one with ``--hypothesis-profile=deep``."""

from __future__ import annotations

import hypothesis

UNHURRIED = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large]

hypothesis.settings.register_profile(
    "deep", hypothesis.settings(), deadline=None, max_examples=2000, suppress_health_check=UNHURRIED
)
