"""examples/jax_loop.py beside a real governor."""

from __future__ import annotations

import pytest
from frameworks.example_runs import run_example


@pytest.mark.jax
def test_the_jax_example_saves_when_it_is_told_resumes_and_ends(tmp_path):
    import jax
    import numpy

    first, last = run_example(tmp_path, "jax_loop.py", ".npz")
    with numpy.load(first) as sooner, numpy.load(last) as later:
        assert set(sooner) == set(later) == {"into", "shift", "out"}
        assert jax.numpy.asarray(later["into"]).shape == (2, 32)
        assert not numpy.array_equal(sooner["into"], later["into"])
