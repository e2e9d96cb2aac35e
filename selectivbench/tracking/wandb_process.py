"""The process that holds W&B runs. It reads messages (JSON lines) and says what went wrong in the end.

- ``start``: a training begins; its run is opened
- ``point``: a point of its learning curve
- ``record``: the open run is completed where the record is that training's; any other (a second
  task of the training, a record from the cache) gets a run of its own, filled from its curve
- ``end``: the training is over; a run that got no record is marked as failed

Key, mode, entity, folder and the like come from wandb's own files and WANDB_ variables. Without a key,
and once W&B cannot be reached, runs are kept offline.
"""

from __future__ import annotations

import json
import netrc
import os
import secrets
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from selectivbench.record import Entry, Identity, Record
from selectivbench.tracking import pages
from selectivbench.tracking.marks import Mirrored
from selectivbench.tracking.pictures import pictures_of

PATIENCE = 30
"""Seconds for W&B to open a run, and as many to complete one."""
POLITE = 5
"""Niceness: a training beside this goes first."""


class Mirror:
    """Turns messages into runs, of which at most one is open."""

    def __init__(self, wandb: Any) -> None:
        self._wandb = wandb
        self._mode = mode_of(wandb.setup().settings)
        self._run: Any = None
        self._training = ""
        self._troubles: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """What went wrong, the first of each kind; nothing where all went well."""
        return "; ".join(self._troubles.values())

    def handle(self, message: Mapping[str, Any]) -> None:
        """Do what a message says. A failure is kept, and the next message is taken as ever."""
        what = {name: value for name, value in message.items() if name != "do"}
        try:
            getattr(self, message["do"])(**what)
        except Exception as error:
            self._troubles.setdefault("message", _said(error))

    def start(self, start: Mapping[str, Any], project: str) -> None:
        """Open the run of a training."""
        identity, entry = Identity(**start["identity"]), Entry(**start["entry"])
        self._training = identity.key
        self._run = self._opened(project, identity, entry, start["budget"])

    def point(self, step: int, loss: float, accuracy: float | None) -> None:
        """Add to the learning curve of the open run."""
        if self._run is not None:
            self._run.log(pages.curve_point(loss, accuracy), step=step)

    def record(self, record: str, source: str, mark: str, project: str) -> None:
        """Complete the open run with its record, or make one for it; leave the mark that says so."""
        whole = Record.from_json(record)
        if self._run is None or whole.identity.key != self._training:
            run = self._opened(project, whole.identity, whole.entry, whole.budget)
            for point in whole.curve:
                run.log(pages.curve_point(point.loss, point.accuracy), step=point.step)
        else:
            run, self._run = self._run, None
        pages.complete(self._wandb, run, whole, source)
        self._show(run, whole, Path(mark).parent)
        mode = self._finished(run, 0 if whole.status in ("pass", "fail") else 1)
        folder = "" if mode == "disabled" else run.settings.sync_dir
        url = run.url if mode == "online" else ""
        Mirrored(project, whole.created, True, mode, folder, url or "").write(Path(mark))

    def end(self) -> None:
        """The training is over; a run that is still open got no record."""
        run, self._run = self._run, None
        if run is not None:
            self._finished(run, 1)

    def _show(self, run: Any, record: Record, folder: Path) -> None:
        """Pictures; a run is whole without them."""
        try:
            with within(PATIENCE):
                drawn = pictures_of(record, folder)
                pages.show(self._wandb, run, drawn, record.curve[-1].step if record.curve else None)
        except Exception as error:
            self._troubles.setdefault("pictures", f"no pictures: {_said(error)}")

    def _opened(
        self, project: str, identity: Identity, entry: Entry, budget: Mapping[str, Any]
    ) -> Any:
        described = pages.described(identity, entry, budget, os.environ)
        try:
            return self._init(project, described)
        except Exception as error:
            if self._mode in ("offline", "disabled"):
                raise
            self._mode = "offline"
            self._troubles.setdefault("offline", f"{_said(error)}; runs are kept offline")
            return self._init(project, described)

    def _init(self, project: str, described: Mapping[str, Any]) -> Any:
        settings = self._wandb.Settings(
            mode=self._mode,
            init_timeout=PATIENCE,
            console="off",
            silent=True,
            host=os.environ.get("WANDB_HOST", "redacted"),  # as in records
            disable_git=True,  # this process is not what trained
            disable_code=True,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
        )
        with within(PATIENCE):
            return self._wandb.init(
                project=project, id=secrets.token_hex(4), settings=settings, **described
            )

    def _finished(self, run: Any, code: int) -> str:
        """The mode that the run ended in: one that W&B does not take in time is an offline one."""
        try:
            with within(PATIENCE):
                run.finish(exit_code=code)
        except TimeoutError as error:
            if self._mode == "offline":
                raise
            self._mode = "offline"
            self._troubles.setdefault("offline", f"{_said(error)}; runs are kept offline")
        return self._mode


def mode_of(settings: Any) -> str:
    """wandb's own mode; offline where it would be online, nobody asked for it, and there is no key."""
    if settings.mode != "online" or "WANDB_MODE" in os.environ or _has_key(settings.base_url):
        return str(settings.mode)
    return "offline"


def _has_key(url: str) -> bool:
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    path = os.environ.get("NETRC") or Path("~/.netrc").expanduser()
    try:
        return netrc.netrc(path).authenticators(urlsplit(url).hostname or "") is not None
    except (OSError, netrc.NetrcParseError):
        return False


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """TimeoutError in the main thread after so many seconds."""

    def late(*_: object) -> NoReturn:
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def main() -> None:
    """Handle messages until the other side closes; print what went wrong."""
    os.nice(POLITE)
    try:
        import wandb

        mirror = Mirror(wandb)
    except Exception as error:
        print(_said(error))
        return
    for line in sys.stdin.buffer:
        mirror.handle(json.loads(line))
    mirror.end()
    print(mirror.trouble, end="")


if __name__ == "__main__":
    main()
