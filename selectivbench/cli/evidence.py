"""``selectivbench evidence`` and ``rescore``: what the bars and the claims rest on."""

from __future__ import annotations

import argparse
from pathlib import Path

from selectivbench.cli.commands import Commands


def add(commands: Commands) -> None:
    """Register ``evidence`` with its actions, and ``rescore``."""
    evidence = commands.add_parser("evidence", help="derive every bar and claim from records anew")
    actions = evidence.add_subparsers(required=True, metavar="ACTION")
    verify = actions.add_parser(
        "verify", help="compare with what is frozen; a difference is an error"
    )
    verify.set_defaults(run=_verify)
    write = actions.add_parser("write", help="freeze thresholds.json and docs/claims.md")
    write.set_defaults(run=_write)
    for action in (verify, write):
        action.add_argument("--records", type=Path, help="default: the committed results")
        action.add_argument("--root", type=Path, help="of the checkout (default: found)")
    rescore = commands.add_parser("rescore", help="judge old records by today's bars")
    rescore.add_argument("folder", type=Path, nargs="?", default=Path(".selectivbench/records"))
    rescore.set_defaults(run=_rescore)


def _verify(given: argparse.Namespace) -> str:
    from selectivbench.evidence.freeze import verified

    return verified(given.records, given.root)


def _write(given: argparse.Namespace) -> str:
    from selectivbench.evidence.freeze import written

    return written(given.records, given.root)


def _rescore(given: argparse.Namespace) -> str:
    from selectivbench.evidence.rescore import rescore

    return rescore(given.folder)
