"""The controller's side of W&B: tells a process of its own what happens, and never waits for it.

Only that process (wandb_process.py) imports wandb. So a wandb that hangs or crashes costs a case
nothing, its threads, hooks and warnings stay out of this process, and it can be ended.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from selectivbench.errors import SelectivError
from selectivbench.record import Record
from selectivbench.tracking.contract import Follower, Start
from selectivbench.tracking.marks import Claim, Mirrored

COMMAND = (sys.executable, "-P", "-m", "selectivbench.tracking.wandb_process")
"""Without the working folder on its path, where a ``wandb`` folder lies after the first run."""

Tell = Callable[..., None]


class MirrorError(SelectivError):
    """W&B did not take what it was told. The records are whole."""


class Wandb:
    """Mirrors each record, once, as a W&B run of a project.

    folder: of the small files by which that is known. patience: seconds that ``close`` waits for
    what is still on its way.
    """

    name = "W&B"

    def __init__(
        self,
        project: str,
        folder: Path,
        patience: float = 60.0,
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        self._project, self._folder, self._patience = project, folder, patience
        self._command = command
        self._opened: _Line | None = None
        self._claimed: list[Path] = []

    def follow(self, start: Start) -> Follower:
        """A run that is filled while the training goes on."""
        self._tell("start", start=asdict(start), project=self._project)
        return _Run(self._tell, lambda record: self.known(record, start.source))

    def known(self, record: Record, source: str) -> None:
        """A run for a record, unless it has one in this project."""
        last = Mirrored.of(self._folder, record.identity.stem)
        if last and last.settles(self._project, record.created, self._folder):
            return
        path = Mirrored.path(self._folder, record.identity.stem)
        mirrored = Mirrored(self._project, record.created, claimant=self._line.claim.name)
        mirrored.write(path)  # now: another worker may come to the same record before it is sent
        self._claimed.append(path)
        self._tell("record", record=record.to_json(), source=source, mark=str(path),
                   project=self._project)  # fmt: skip

    def close(self) -> None:
        """Wait for the last runs; MirrorError where some were not taken."""
        if self._opened is None:
            return
        said = self._opened.close(self._patience)
        lost = [path for path in self._claimed if not _is_whole(path)]
        for path in lost:
            path.unlink(missing_ok=True)  # so that a later run may try again
        if lost:
            later = "a later run with --selectiv-wandb takes them from their records"
            said = f"{said or 'it stopped early'}; {len(lost)} not mirrored, {later}"
        if said:
            raise MirrorError(f"{said}.")

    @property
    def _line(self) -> _Line:
        """Opened when there is something to say."""
        if self._opened is None:
            self._opened = _Line(self._command, Claim(self._folder))
        return self._opened

    def _tell(self, do: str, **what: object) -> None:
        self._line.send({"do": do, **what})


class _Run:
    """The follower of one training."""

    def __init__(self, tell: Tell, record: Callable[[Record], None]) -> None:
        self._tell, self.done = tell, record

    def point(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:  # noqa: ARG002 - a tracker's
        self._tell("point", step=step, loss=loss, accuracy=accuracy)

    def end(self) -> None:
        self._tell("end")


class _Line:
    """A process, and a thread that writes to it: whoever sends does not wait, even for a full pipe."""

    def __init__(self, command: tuple[str, ...], claim: Claim) -> None:
        self.claim = claim
        self._process = subprocess.Popen(
            command,
            pass_fds=(claim.descriptor,),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us; we end it
        )
        self._messages: queue.SimpleQueue[dict[str, object] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="wandb-writer", daemon=True)
        self._writer.start()

    def send(self, message: dict[str, object]) -> None:
        """Leave a message; nothing where the process is gone."""
        if self._writer.is_alive():
            self._messages.put(message)

    def close(self, patience: float) -> str:
        """Let it finish, or end it; what went wrong, or nothing."""
        assert self._process.stdout is not None
        self._messages.put(None)
        try:
            code = self._process.wait(patience)
            said = self._process.stdout.read().decode(errors="replace").strip()
            return said or (f"it ended with exit code {code}" if code else "")
        except subprocess.TimeoutExpired:
            return f"no answer within {patience:g} s"
        finally:  # after Ctrl-C too
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._writer.join(1.0)
            self.claim.close()

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(OSError):  # it is gone; `close` says so
            while (message := self._messages.get()) is not None:
                pipe.write(json.dumps(message).encode() + b"\n")
                pipe.flush()
        with suppress(OSError):
            pipe.close()


def _is_whole(path: Path) -> bool:
    mirrored = Mirrored.at(path)
    return mirrored is not None and mirrored.whole
