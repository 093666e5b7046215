"""Which files a rank read: those of the repository that Python opened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, os, sys
from pathlib import Path
from pytest_dlperf.worker.host import imported, watch_reads
watch_reads()
exec(open("cfg.py").read())
Path("net.yaml").read_text()
os.close(os.open("table.bin", os.O_RDONLY))
open("log.txt", "w").close()
open(sys.argv[1]).close()
record = imported()
print(json.dumps([sorted(record["read"]), record["started_processes"], extra]))
"""


def test_files_of_the_trees_that_were_opened_for_reading(tmp_path: Path) -> None:
    tree, elsewhere = tmp_path / "tree", tmp_path / "elsewhere.txt"
    tree.mkdir()
    (tree / "cfg.py").write_text("extra = 4\n", encoding="utf-8")
    for path in (tree / "net.yaml", tree / "table.bin", elsewhere):
        path.write_text("", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(elsewhere)], cwd=tree, check=True,
        env=os.environ | {"DLPERF_TREES": str(tree)}, capture_output=True, text=True,
    )  # fmt: skip
    read, started, extra = json.loads(done.stdout)
    assert [Path(path).name for path in read] == ["cfg.py", "net.yaml", "table.bin"]
    assert (started, extra) == (False, 4)
