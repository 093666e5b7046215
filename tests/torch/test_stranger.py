"""A second process that knows the port where torchrun's ranks meet runs no code in them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.plan import make_plan

pytestmark = pytest.mark.torch

#: Two ranks that go on averaging, as a training does.
RANKS = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(600):
    dist.all_reduce(torch.ones(4))
    print(f"step {step}", flush=True)
    time.sleep(0.05)
"""
#: Writes a pickle to every key that it can list, in base64, as torchrun's own backend stores its
#: state; where nothing reads that, by turns as it is, which would end such a backend unread.
STRANGER = """
import base64, datetime, os, pickle, sys, time, torch.distributed as dist
port, proof, forms, turns = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

class Payload:
    def __reduce__(self):
        return os.system, (f"echo > {proof}",)

text = pickle.dumps(Payload())
# Another address of the loopback network than torchrun's own
store = dist.TCPStore("127.0.0.2", port, is_master=False, wait_for_workers=False,
                      timeout=datetime.timedelta(seconds=10))
written = 0
try:
    for turn in range(turns):
        if os.path.exists(proof):
            break
        for key in store.list_keys():
            store.set(key.removeprefix("/"), text if turn % forms else base64.b64encode(text))
            written += 1
        time.sleep(1)
except dist.DistNetworkError:
    pass  # the launcher has ended
print("written", written)
"""


def rendezvous_of_the_product(folder: Path) -> tuple[list[str], dict[str, str]]:
    [case] = expand(
        suite="net", command=["python", "ranks.py"], framework="torch", layout="1n2c",
        batch_size_per_device=1,
    )  # fmt: skip
    target = Target(python=sys.executable, python_path=(), threads_per_rank=1, folder=str(folder))
    plan = make_plan(case, target, folder / "run")
    return list(plan.argv), plan.env


def rendezvous_standalone(folder: Path) -> tuple[list[str], dict[str, str]]:
    words = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    return [sys.executable, *words, "--nproc-per-node=2", "ranks.py"], {}


@pytest.mark.parametrize(
    ("launch", "forms", "turns", "is_taken_over"),
    # The second shows that the attack works where it can: its launcher looks once in a while.
    [(rendezvous_of_the_product, 2, 8, False), (rendezvous_standalone, 1, 100, True)],
)
def test_a_stranger_runs_no_code(
    launch, forms: int, turns: int, is_taken_over: bool, tmp_path: Path
):
    for name, text in (("ranks", RANKS), ("stranger", STRANGER)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    proof = tmp_path / "proof"
    argv, env = launch(tmp_path)
    log = tmp_path / "log"
    with log.open("wb") as output:
        victim = subprocess.Popen(
            argv, cwd=tmp_path, env={**os.environ, **env}, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: b"step 1" in log.read_bytes() or victim.poll() is not None)
        assert victim.poll() is None, log.read_text(encoding="utf-8")
        said = attacked(tmp_path, ports_of(victim.pid), [str(proof), str(forms), str(turns)])
    finally:
        os.killpg(victim.pid, signal.SIGTERM)
        victim.wait(60)
    assert re.search("written [1-9]", said), log.read_text(encoding="utf-8")
    assert proof.exists() == is_taken_over


def attacked(folder: Path, ports: list[int], words: list[str]) -> str:
    strangers = [
        subprocess.Popen(
            [sys.executable, "stranger.py", str(port), *words],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for port in ports
    ]  # fmt: skip
    return "".join(stranger.communicate(timeout=120)[0] for stranger in strangers)


def ports_of(pid: int) -> list[int]:
    """Return the ports on all addresses at which the process listens."""
    links = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in links:  # 0A: it listens
                found.append(int(words[1].rpartition(":")[2], 16))
    return found


def wait_for(condition) -> None:
    end_s = time.monotonic() + 120
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.05)
