"""Hypothesis profiles of the core's tests: a bounded run by default, a long one with ``--hypothesis-profile=deep``."""

from __future__ import annotations

import hypothesis
import pytest

UNHURRIED = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large]

hypothesis.settings.register_profile(
    "deep", hypothesis.settings(), deadline=None, max_examples=2000, suppress_health_check=UNHURRIED
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """A way to accept changed lines."""
    parser.addoption("--update-golden", action="store_true", help="write the golden files of the lines anew")
