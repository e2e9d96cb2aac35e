"""The Atom feed of changes: one item for each source of an entry on a profile and device class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from leaderboard.load import Case
from leaderboard.rank import Standing
from leaderboard.svg import xml_text

ATOM = "http://www.w3.org/2005/Atom"
EPOCH = "1970-01-01T00:00:00Z"
MOST = 100
"""Items; readers keep the older ones themselves."""

Item = tuple[str, str, str, str]
"""(entry, source sha, profile, device class)"""


def atom(standings: Sequence[Standing], cases: Sequence[Case]) -> bytes:
    """The feed's bytes. Times are those of records, so that the same records give the same feed."""
    items = _items(cases)
    places = {(s.entry.id, s.source, s.profile, s.device): s for s in standings}
    feed = ET.Element("feed", xmlns=ATOM)
    _text(feed, "title", "SelectivBench leaderboard")
    _text(feed, "id", "tag:selectivbench,2026:leaderboard")
    _text(feed, "updated", items[0][1] if items else EPOCH)
    ET.SubElement(feed, "link", href="index.html")
    _text(ET.SubElement(feed, "author"), "name", "SelectivBench")
    for item, moment in items[:MOST]:
        _entry(feed, item, moment, places.get(item))
    ET.indent(feed, " ")
    text: bytes = ET.tostring(feed, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _items(cases: Sequence[Case]) -> list[tuple[Item, str]]:
    newest: dict[Item, str] = defaultdict(str)
    for case in cases:
        who = case.record.identity
        item = (who.entry, who.source_sha256, who.profile, who.device_class)
        newest[item] = max(newest[item], case.moment)
    dated = [(item, moment or EPOCH) for item, moment in newest.items()]
    return sorted(dated, key=lambda pair: (pair[1], pair[0]), reverse=True)


def _entry(feed: ET.Element, item: Item, moment: str, standing: Standing | None) -> None:
    entry, source, profile, device = item
    node = ET.SubElement(feed, "entry")
    _text(node, "title", f"{entry} on {profile}, {device}: {_news(standing)}")
    _text(node, "id", f"tag:selectivbench,2026:{entry}/{source[:16]}/{profile}/{device}")
    _text(node, "updated", moment)
    ET.SubElement(node, "link", href=f"entries/{entry}.html")
    _text(node, "summary", f"Source {source[:10]}; {_news(standing)}.")


def _news(standing: Standing | None) -> str:
    if standing is None:
        return "superseded"
    if standing.marks:
        return f"marked, not ranked: {standing.marks[0]}"
    if standing.overall is None:
        return f"{len(standing.cases)} records, no overall score yet"
    return f"overall {standing.overall.value:.3f}, rank {standing.rank}"


def _text(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, name).text = xml_text(text)
