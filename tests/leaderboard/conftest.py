"""Fixtures of the site's tests; ``made`` holds the synthetic records."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # `import made`, whatever pytest's import mode
