"""Which rank stopped first, by its records, its stack, and whether its process lived."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.run import Run
from pytest_dlperf.launch.remote import far_side
from pytest_dlperf.measure.failure import failure_of
from pytest_dlperf.measure.records import read_records
from pytest_dlperf.measure.stacks import read_stacks
from pytest_dlperf.measure.stopped import pid_namespace
from pytest_dlperf.worker import host
from tests.helpers.record_files import case, changed, rank_records, without, write

TORCH = "/env/lib/python3.11/site-packages/torch"
WAITS = [f"{TORCH}/autograd/graph.py", "/home/me/model.py"]
STANDS = ["/env/lib/python3.11/threading.py", "/home/me/model.py"]


def stack(folder: Path, rank: int, files: list[str], crash: str = "") -> None:
    calls = "".join(f'  File "{file}", line 7 in f\n' for file in files)
    text = f"Current thread 0x0000000000000abc (most recent call first):\n{calls}"
    crash = f"Fatal Python error: {crash}\n\n" if crash else ""
    (folder / f"rank{rank:05d}.stack").write_text(f"main 0xabc\n{crash}{text}", encoding="utf-8")


def run(folder: Path, iterations: list[int], **values: Any) -> Run:
    """Two ranks of this host without a last word, of pids 10 and 11."""
    here = {"node": socket.gethostname(), "pid_namespace": pid_namespace()}
    ranks = [
        changed(without(rank_records(rank), "end"), "start", pid=10 + rank, **here)
        for rank in range(2)
    ]
    ended = write(folder, ranks, exit_code=1, **values)
    for rank, done in enumerate(iterations):
        data = struct.pack("<qd", done, ended.started_at_s)
        (folder / f"rank{rank:05d}.progress").write_bytes(data)
    return ended


def said(ended: Run, layout: str = "1n2c") -> str:
    records = read_records(Path(ended.plan.workdir))
    return str(failure_of(case(layout), ended, records)).partition("\n")[0]


def test_a_rank_elsewhere_is_named_not_one_that_waits(tmp_path: Path):
    ended = run(tmp_path, [4, 4])
    stack(tmp_path, 0, WAITS)
    stack(tmp_path, 1, STANDS)
    text = said(ended)
    assert "exit code 1; rank 1 stopped at iteration 4 of 20, without a word: it was in f" in text
    assert (
        "called from f (/home/me/model.py, line 7), 9 s after its last iteration; rank 0" in text
    )
    assert "it waited for the others in f (/env" in text


def test_who_compiles_does_not_wait(tmp_path: Path):
    jax = "/env/lib/python3.11/site-packages/jax/_src"
    ended = run(tmp_path, [4, 4])
    stack(tmp_path, 0, [f"{jax}/array.py", "/env/pytest_dlperf/worker/loop.py"])
    stack(tmp_path, 1, [f"{jax}/compiler.py", f"{jax}/pjit.py", "/home/me/model.py"])
    text = said(ended)
    assert "; rank 1 stopped at iteration 4 of 20, without a word: it was in f" in text
    assert "; rank 0 stopped at iteration 4 of 20, without a word: it waited for the" in text


@pytest.mark.parametrize("file", ["cuda/__init__.py", "cuda/streams.py", "amp/grad_scaler.py"])
def test_who_waits_for_its_gpu_waits_for_the_others(tmp_path: Path, file: str):
    """A collective over NCCL hangs on the GPU; the host waits for it, or for the loss scaler."""
    ended = run(tmp_path, [4, 4])
    stack(tmp_path, 0, [f"{TORCH}/{file}", "/home/me/model.py"])
    stack(tmp_path, 1, STANDS)
    assert "rank 1 stopped at iteration 4 of 20, without a word: it was in f" in said(ended)


def own_program(folder: Path, line: str, *, written_s: float = 500.0) -> str:
    """Write a program whose line 7 is given, before the run began at 1000 s; return its path."""
    path = folder / "train.py"
    path.write_text("\n" * 6 + f"    {line}\n", encoding="utf-8")
    os.utime(path, (written_s, written_s))
    return str(path)


@pytest.mark.parametrize(
    "line", ["total += loss.item()", "a = x.tolist()", "y = x.cpu()", "event.synchronize()"]
)
def test_who_reads_its_gpu_in_a_line_of_its_own_waits(tmp_path: Path, line: str):
    """The stack of Python ends there: the method that waits is in C. Rank 0 was blamed."""
    ended = run(tmp_path, [4, 4])
    stack(tmp_path, 0, [own_program(tmp_path, line)])
    stack(tmp_path, 1, STANDS)
    text = said(ended, "1n2g")
    assert "rank 1 stopped at iteration 4 of 20, without a word: it was in f" in text
    assert f"it waited for its GPU in f ({tmp_path}/train.py, line 7): {line}, 9 s after" in text


@pytest.mark.parametrize(
    ("line", "written_s", "layout"),
    [
        ("while True: pass", 500.0, "1n2g"),
        ("loss.item()", 500.0, "1n2c"),
        ("loss.item()", 1001.0, "1n2g"),
    ],
)
def test_a_line_that_waits_for_no_gpu_is_where_a_rank_was(
    tmp_path: Path, line: str, written_s: float, layout: str
):
    """It reads no device, the case has none, or the file is not the one that ran."""
    ended = run(tmp_path, [4, 4])
    stack(tmp_path, 0, [own_program(tmp_path, line, written_s=written_s)])
    stack(tmp_path, 1, WAITS)
    text = said(ended, layout)
    assert f"rank 0 stopped at iteration 4 of 20, without a word: it was in f ({tmp_path}" in text


def test_the_source_of_a_line_may_be_on_another_host(tmp_path: Path):
    ended = run(tmp_path, [4, 4])
    stack(tmp_path, 0, ["/elsewhere/train.py"])
    stack(tmp_path, 1, WAITS)
    assert "rank 0 stopped at iteration 4 of 20" in said(ended, "1n2g")
    assert "waited for its GPU" not in said(ended, "1n2g")


def test_a_rank_that_waits_is_behind_one_that_is_gone(tmp_path: Path):
    ended = run(tmp_path, [3, 4], alive=frozenset({10}))
    stack(tmp_path, 0, WAITS)
    text = said(ended)
    assert "exit code 1; rank 1 stopped at iteration 4 of 20, without a word: its process" in text


def test_a_rank_that_crashed_while_it_waited_was_not_the_first(tmp_path: Path):
    ended = run(tmp_path, [4, 4], alive=frozenset())
    stack(tmp_path, 0, WAITS, crash="Aborted")
    text = said(ended)
    assert "exit code 1; rank 1 stopped" in text
    assert "rank 0 stopped at iteration 4 of 20, without a word: it crashed (Aborted) in f" in text


def test_two_that_wait_are_distinguished_by_their_progress(tmp_path: Path):
    ended = run(tmp_path, [5, 4])
    stack(tmp_path, 0, WAITS)
    stack(tmp_path, 1, WAITS)
    assert "exit code 1; rank 1 stopped at iteration 4" in said(ended)


def test_a_process_of_another_container_may_live(tmp_path: Path):
    ended = run(tmp_path, [4, 5], alive=frozenset())
    path = tmp_path / "rank00000.jsonl"
    text = path.read_text(encoding="utf-8").replace(pid_namespace(), "pid:[1]")
    path.write_text(text, encoding="utf-8")
    assert "rank 0 stopped at iteration 4 of 20, without a word: it was killed, or it" in said(
        ended
    )


def test_whom_the_kernel_kills_for_memory(tmp_path: Path):
    text = said(run(tmp_path, [4, 5], alive=frozenset(), oom_kills=1))
    assert (
        "the kernel killed it, the host being out of memory; lower batch_size_per_device (4)"
        in text
    )


@pytest.mark.parametrize(
    "message",
    [
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total "
        "capacity of 15.77 GiB of which 1.12 GiB is free. Process 7 has 14.6 GiB in use.",
        "ResourceExhaustedError: \n\nOut of memory error on GPU 1. Cannot allocate 2.0GB memory",
        "ResourceExhaustedError: OOM when allocating tensor with shape[256,64] on "
        "/job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_0_bfc",
        "JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 62914 bytes.",
        "JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.99GiB "
        "(3206250496B) on device ordinal 1",
    ],
)
def test_memory_of_a_device(tmp_path: Path, message: str):
    ended = run(tmp_path, [4, 4])
    with (tmp_path / "rank00001.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"rank": 1, "record": "framework", "device": "cuda:1"}\n')
        record = {"rank": 1, "record": "failure", "code": "exception", "message": message,
                  "traceback": message, "time": 1.0}  # fmt: skip
        file.write(f"{json.dumps(record)}\n")
    assert "rank 1: out of memory on its device (cuda:1): " in said(ended)
    assert "lower batch_size_per_device (4)" in said(ended)


_THREAD = (
    "/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:111: operator(): block: [0,0,0], "
    'thread: [{},0,0] Assertion `index < sizes[i] && "index out of bounds"` failed.\n'
)


def failed_with(folder: Path, message: str, log: str) -> str:
    """Return what is said of a rank that failed with ``message``, beside ``log``."""
    ended = run(folder, [4, 4])
    Path(ended.log).write_text(log, "utf-8")
    with (folder / "rank00001.jsonl").open("a", encoding="utf-8") as file:
        record = {"rank": 1, "record": "failure", "code": "exception", "message": message,
                  "traceback": message, "time": 1.0}  # fmt: skip
        file.write(f"{json.dumps(record)}\n")
    return said(ended)


@pytest.mark.parametrize(
    "log",
    [
        _THREAD.format(0) + _THREAD.format(1) + "later\n" * 9,
        f"\x1b[32mEpoch 1:  10%|# \r\x1b[0mEpoch 1: 20%| {_THREAD.format(0)}",
        "printed\n" * 100_000 + _THREAD.format(0),
    ],
)
def test_what_a_kernel_asserted(tmp_path: Path, log: str):
    # Of PyTorch 2.11 on an H100
    message = (
        "AcceleratorError: CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' "
        "in https://docs.nvidia.com for more information.\nCompile with `TORCH_USE_CUDA_DSA`."
    )
    assert (
        "rank 1: AcceleratorError: CUDA error: device-side assert triggered (Assertion `index < "
        'sizes[i] && "index out of bounds"` failed in /pytorch/aten/src/ATen/native/cuda/'
        "IndexKernel.cu:111: operator()); the traceback shows where the host saw the error"
    ) in failed_with(tmp_path, message, log)


@pytest.mark.parametrize(
    ("message", "is_of_a_kernel"),
    [
        ("RuntimeError: the step failed:\nCUDA error: an illegal memory access\nmore", True),
        ("RuntimeError: CUDA error: no kernel image is available\nassert_async", False),
    ],
)
def test_other_errors_of_cuda(tmp_path: Path, message: str, is_of_a_kernel: bool):
    text = failed_with(tmp_path, message, _THREAD.format(0))
    sentence = text.partition("Log: ")[0]
    assert "CUDA error: " in sentence
    assert "Assertion" not in sentence
    assert ("CUDA_LAUNCH_BLOCKING=1" in sentence) is is_of_a_kernel


def test_a_disk_that_was_full(tmp_path: Path):
    text = said(run(tmp_path, [4, 4], log_error="No space left on device"))
    assert f"the disk is full (No space left on device): {tmp_path}, " in text


def test_a_real_stack_is_read(tmp_path: Path):
    """Of a rank that another thread's work and a second signal come between."""
    code = textwrap.dedent("""
        import pathlib, sys, threading, time
        from pytest_dlperf.worker import failure
        failure.watch(pathlib.Path(sys.argv[1]), 3)
        failure.watch(pathlib.Path(sys.argv[1]), 3)
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        def stands():
            print("up", flush=True)
            time.sleep(60)
        stands()
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=dict(os.environ)
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    assert read_stacks(tmp_path) == {}
    process.send_signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM
    process.stdout.close()
    [(rank, found)] = read_stacks(tmp_path).items()
    assert rank == 3
    # In the line that it said so in, or the next.
    assert found.calls[0] in {("<string>", 8, "stands"), ("<string>", 9, "stands")}
    assert not found.waits


@pytest.mark.skipif(sys.platform != "linux", reason="PID namespaces are Linux")
def test_a_rank_a_far_end_and_this_host_name_a_pid_namespace_alike(
    monkeypatch: pytest.MonkeyPatch,
):
    assert pid_namespace().startswith("pid:[")
    assert {host.pid_namespace(), far_side.pid_namespace()} == {pid_namespace()}
    monkeypatch.setattr(os, "readlink", _no_proc)
    assert {host.pid_namespace(), far_side.pid_namespace(), pid_namespace()} == {""}


def _no_proc(path: str) -> str:
    raise FileNotFoundError(path)
