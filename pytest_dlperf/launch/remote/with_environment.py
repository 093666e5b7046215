"""Run a rank with environment variables from a file: ``with_environment.py FILE COMMAND``.

Standard library only. Launchers write a rank's environment into command lines, which every user
of a host can read; only its owner can read the file.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main(argv: list[str]) -> None:
    """Replace this process by the command, with the file's variables in its environment."""
    os.environ.update(json.loads(Path(argv[0]).read_text(encoding="utf-8")))
    os.execvp(argv[1], argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
