"""examples/pytorch_loop.py beside a real governor."""

from __future__ import annotations

import pytest
from frameworks.example_runs import STEPS_MORE, run_example


@pytest.mark.torch
def test_the_pytorch_example_saves_when_it_is_told_resumes_and_ends(tmp_path):
    import torch

    first, last = run_example(tmp_path, "pytorch_loop.py", ".pt")
    sooner, later = (torch.load(path, weights_only=True) for path in (first, last))
    assert later["step"] == sooner["step"] + STEPS_MORE
    moments = [state["optimizer"]["state"][0]["step"].item() for state in (sooner, later)]
    assert moments == [sooner["step"], later["step"]]  # the optimizer was resumed, too
    assert not torch.equal(sooner["model"]["0.weight"], later["model"]["0.weight"])
