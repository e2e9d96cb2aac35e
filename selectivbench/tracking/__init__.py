"""Followers of a running case. They can never make it fail, and there is always one to call.

contract.py says what a follower is; events.py writes JSON lines; mirror.py sends runs to W&B, through
wandb_process.py; marks.py tells which records have one; gates.py keeps what a model's gates did, which
pictures.py draws for its run; together.py is several of them as one, and keeps their failures from the
case.
"""

from selectivbench.tracking.contract import Follower, NullTracker, Start, Tracking

__all__ = ["Follower", "NullTracker", "Start", "Tracking"]
