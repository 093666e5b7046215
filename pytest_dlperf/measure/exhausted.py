"""Failures of a device's kernels, and for lack of memory or disk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.run import EndReason, Run
from pytest_dlperf.core.writable import line_begin

#: torch, Paddle ("ResourceExhaustedError: Out of memory error on GPU 0"), TensorFlow, and JAX,
#: which says "Out of memory allocating 8 bytes" of a host.
_DEVICE_MEMORY: Final = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError|HIP out of memory"
    r"|CUDA_ERROR_OUT_OF_MEMORY|[Oo]ut of memory error on GPU|OOM when allocating.*GPU"
    r"|RESOURCE_EXHAUSTED: (?:Out of memory while trying to allocate|Failed to allocate request)"
)
_HOST_MEMORY: Final = re.compile(
    r"MemoryError|std::bad_alloc|[Cc]annot allocate memory|not enough memory: you tried"
    r"|ResourceExhausted|OOM when allocating|[Oo]ut of memory"
)
_DISK: Final = re.compile(r"No space left on device|Disk quota exceeded|File too large")
#: Below this a file system counts as full: a run's records need more.
_FULL_BYTES: Final = 2**16
#: The driver's words where only one process may use a GPU, and one does.
_DEVICE_BUSY: Final = re.compile(
    r"CUDA-capable device\(s\) is/are busy|CUDA_ERROR_DEVICE_UNAVAILABLE"
)


def is_for_room(message: str) -> bool:
    """Return whether ``message`` is that of a training that does not fit beside another one."""
    return is_for_memory(message) or any(words.search(message) for words in (_DEVICE_BUSY, _DISK))


def is_for_memory(message: str) -> bool:
    """Return whether ``message`` is that of a failure for lack of memory."""
    return bool(_DEVICE_MEMORY.search(message) or _HOST_MEMORY.search(message))


def out_of_memory(case: Case, message: str, device: str = "") -> str:
    """Return a sentence on a failure for lack of memory; empty for another failure.

    ``device`` is the name of the rank's device, where it is known.
    """
    batch = case.batch_size_per_device
    if _DEVICE_MEMORY.search(message):
        return (
            f"out of memory on its device{f' ({device})' if device else ''}: {_first(message)}; "
            f"lower batch_size_per_device ({batch}), or choose a smaller size or precision, and "
            "see that nothing else is on the device"
        )
    if _HOST_MEMORY.search(message):
        return f"out of memory on its host: {_first(message)}; {_for_the_host(batch)}"
    return ""


def killed_for_memory(case: Case) -> str:
    """Return a sentence on a rank that the kernel killed for lack of memory."""
    batch = case.batch_size_per_device
    return f"the kernel killed it, the host being out of memory; {_for_the_host(batch)}"


def _for_the_host(batch: int) -> str:
    return (
        f"lower batch_size_per_device ({batch}), the workers that load data, or the ranks on one "
        "host, or raise the limit of the container or job"
    )


#: In the line with an error of CUDA. A kernel's is raised where the host next uses the device.
_CUDA_ERROR: Final = "CUDA error: "
_OF_A_KERNEL: Final = re.compile(
    r"CUDA error: (?:device-side assert|an illegal|misaligned|unspecified launch|invalid program)"
)
#: How a kernel of PyTorch says which of its assertions failed, once for each thread.
_OF_A_BLOCK: Final = ": block: ["
_PLACE: Final = re.compile(r"\S+:\d+: .*")
_ASSERTED: Final = re.compile(r"Assertion `.*?` failed")
#: So much of a line is looked at, before those words and after them: the time of such patterns
#: grows with the square of it.
_PLACE_CHARACTERS: Final = 400
_ASSERTED_CHARACTERS: Final = 2000
_HEAD_BYTES: Final = 2**18


def on_device(message: str, log: Path) -> str:
    """Return a sentence on an error of CUDA; empty for another failure.

    It has the line with the error alone: CUDA's other lines are the same for every error. What a
    kernel asserted is in the log, of which the begin and the end are read.
    """
    error = next((line.strip() for line in message.split("\n") if _CUDA_ERROR in line), "")
    if not error:
        return ""
    if not _OF_A_KERNEL.search(error):
        return error
    asserted = _assertion(_ends_of(log)) if "assert" in error else ""
    return (
        f"{error}{asserted}; the traceback shows where the host saw the error, and with "
        "CUDA_LAUNCH_BLOCKING=1 in the environment the line that started the kernel"
    )


def _assertion(log: str) -> str:
    """Return words for the first assertion of a kernel that failed, and its place; or nothing."""
    for line in log.split("\n"):
        head, separator, rest = line.partition(_OF_A_BLOCK)
        if not separator:
            continue
        place = _PLACE.search(head[-_PLACE_CHARACTERS:])
        words = _ASSERTED.search(rest[:_ASSERTED_CHARACTERS])
        if place and words:
            return f" ({words[0]} in {place[0]})"
    return ""


def _ends_of(log: Path) -> str:
    try:
        with log.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            file.seek(max(len(head), file.seek(0, os.SEEK_END) - _HEAD_BYTES))
            return (head + file.read()).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _first(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    line = next((line for line in lines if _DEVICE_MEMORY.search(line)), lines[0])
    return line_begin(line, 300)


def full_disk(run: Run, messages: Iterable[str]) -> str:
    """Return a sentence on a full disk; empty if none was full.

    ``messages`` are those of the ranks' failures.
    """
    folder = Path(run.plan.workdir)
    errors = [run.log_error, *messages]
    if run.end.reason is EndReason.REPORT_NOT_WRITTEN:
        errors.append(str(run.end))
    message = next((text for text in errors if _DISK.search(text)), "")
    free = free_bytes(folder)
    is_full = free is not None and free < _FULL_BYTES
    if not message and not is_full:
        return ""
    if "File too large" in message:
        return f"a file met the limit of its size ({message}) in {folder}; see ulimit -f"
    left = "" if free is None else f", {free // 2**10} KiB are free"
    return (
        f"the disk is full ({message or 'nothing fits any more'}): {folder}{left}; make room "
        "there, or name another folder with --dlperf-workdir"
    )


def file_words(error: OSError, folder: Path) -> str:
    """Return a sentence on a file of the session that could not be read or written.

    ``folder`` is that of the session: an error while a file is written names no file.
    """
    where = error.filename or f"a file in {folder}"
    remedy = "make room there, or name another folder with --dlperf-workdir"
    full = f"; {remedy}" if _DISK.search(str(error)) else ""
    return f"{where}: {error.strerror or error}{full}"


def free_bytes(folder: Path) -> int | None:
    """Return how much may still be written below ``folder``; None if that is unknown."""
    for place in (folder, *folder.parents):
        try:
            status = os.statvfs(place)
        except OSError:
            continue
        # A file system without a table of files reports 0 free of 0.
        if status.f_files and not status.f_favail:
            return 0
        return status.f_bavail * status.f_frsize
    return None
