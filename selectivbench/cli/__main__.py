"""``python -m selectivbench.cli``."""

import sys

from selectivbench.cli import main

sys.exit(main())
