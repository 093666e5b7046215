"""``python -m pytest_dlperf.cli`` is ``dlperf``."""

from __future__ import annotations

import sys

from pytest_dlperf.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
