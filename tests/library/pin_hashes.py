"""Writes golden_hashes.json anew: ``python -m tests.library.pin_hashes`` after a version bump."""

from __future__ import annotations

import json
from pathlib import Path

from selectivbench.export import golden_hash
from selectivbench.tasks import TASKS

if __name__ == "__main__":
    hashes = {
        f"{task.id}/{profile}/{variant}": golden_hash(task.dataset(profile, variant, 1))
        for task in TASKS
        for profile in task.variants
        for variant in task.variants[profile]
    }
    path = Path(__file__).with_name("golden_hashes.json")
    path.write_text(json.dumps(hashes, indent=1) + "\n")
