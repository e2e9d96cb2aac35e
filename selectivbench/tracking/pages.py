"""What a W&B run shows of a case: its name, group and tags, its settings, its figures, its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from selectivbench.record import Entry, Identity, Record
from selectivbench.tracking.contract import training_name

if TYPE_CHECKING:
    from selectivbench.figures.page import Drawn

LONGEST_TAG = 64
DOTS = 120
"""An inch of a picture."""


def described(
    identity: Identity, entry: Entry, budget: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, Any]:
    """Keywords of ``wandb.init``; a group, job type or tags of the environment count."""
    own = (*entry.tags, identity.task, identity.profile, identity.device_class)
    asked = environ.get("WANDB_TAGS", "").split(",")
    return {
        "name": f"{identity.entry} {training_name(identity)}",
        "group": environ.get("WANDB_RUN_GROUP") or f"{identity.entry} {identity.task}",
        "job_type": environ.get("WANDB_JOB_TYPE") or identity.profile,
        "tags": sorted({tag.strip()[:LONGEST_TAG] for tag in (*own, *asked)} - {""}),
        "config": {**asdict(identity), **asdict(entry), **budget},
    }


def curve_point(loss: float, accuracy: float | None) -> dict[str, float]:
    """A point of the learning curve."""
    point = {"train/loss": loss}
    return point if accuracy is None else {**point, "validation/accuracy": accuracy}


def complete(wandb: Any, run: Any, record: Record, source: str) -> None:
    """Figures in the run's summary, what they were got with in its config, and two artifacts."""
    identity = record.identity
    run.config.update({"environment": record.environment, "machine": record.machine})
    run.tags = (*(run.tags or ()), record.status)
    run.summary.update(summary(record))
    _attach(wandb, run, f"record-{identity.key}", "record", f"{identity.stem}.json",
            record.to_json())  # fmt: skip
    _attach(wandb, run, f"source-{identity.entry}", "source", f"{identity.entry}.py", source)


def show(wandb: Any, run: Any, pictures: Mapping[str, Drawn], step: int | None) -> None:
    """Add pictures of gates at a step of the run, its last."""
    images = {f"gates/{name}": wandb.Image(drawn.pixels(DOTS)) for name, drawn in pictures.items()}
    if images:
        run.log(images, step=step)


def summary(record: Record) -> dict[str, Any]:
    """The record's figures under flat names; those that it has not are left out."""
    figures = {
        "verdict": record.status,
        "cause": record.cause or None,
        "accuracy": record.accuracy,
        "floor": record.floor,
        "ceiling": record.ceiling,
        "score": record.score,
        "parameters": record.parameters,
        "state_size": record.state_size,
        "peak_memory": record.peak_memory,
        **{f"seconds/{name}": value for name, value in record.seconds.items()},
        **{f"accuracy/{e.split}": e.accuracy for e in record.evaluations},
    }
    return {name: value for name, value in figures.items() if value is not None}


def _attach(wandb: Any, run: Any, name: str, kind: str, file: str, text: str) -> None:
    artifact = wandb.Artifact(re.sub(r"[^\w.-]", "_", name), type=kind)
    with artifact.new_file(file, mode="w", encoding="utf-8") as opened:
        opened.write(text)
    run.log_artifact(artifact)
