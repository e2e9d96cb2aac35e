"""Listens to the gates of each model that was trained, for the pictures of its W&B run."""

from __future__ import annotations

from pathlib import Path

from selectivbench.job import Job
from selectivbench.mechanism.glimpse import glimpse
from selectivbench.record import REUSED, Identity, Record
from selectivbench.sandbox.launchers import Launchers
from selectivbench.sandbox.states import State
from selectivbench.signals import NOTHING_TO_HEAR
from selectivbench.tracking.gates import Gates


class Ears:
    """Hears each model in a child of its own, once its records are written.

    So whatever goes wrong there costs a picture, and is said once. session: the folder of events.
    """

    def __init__(self, session: Path, launchers: Launchers) -> None:
        self._session, self._launchers = session, launchers
        self._model: tuple[Identity, State] | None = None
        self.troubles: tuple[str, ...] = ()
        """The first thing that went wrong."""

    def remember(self, identity: Identity, state: State) -> None:
        """The model of the training that goes on."""
        self._model = identity, state

    def hear(self, job: Job, record: Record) -> None:
        """Keep what the gates of a model do, where its case came to an end and there are any."""
        model, self._model = self._model, None
        identity = job.identity(job.tasks[0])
        try:
            if model is not None and model[0] == identity and record.status in REUSED:
                launcher = self._launchers.of(job.submission.imports)
                path = Gates.path(self._session, identity.stem)
                glimpse(job, launcher, model[1]).write(path)
        except Exception as error:
            if NOTHING_TO_HEAR not in str(error):
                why = f"gates of {job.submission.id}: {' '.join(str(error).split())}"
                self.troubles = self.troubles or (why,)
