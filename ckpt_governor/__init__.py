"""checkpoint-governor: one process beside a training job that decides when a checkpoint is written."""

__version__ = "0.1.0"
