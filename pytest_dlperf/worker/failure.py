"""Failures of a rank: checks that it ran what its case declares, and its stacks when it ends.

``faulthandler`` writes the stacks in the signal's handler, in C: also while the rank is stuck in a
collective, in the compiler or in a call that holds the interpreter's lock.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from pytest_dlperf.core.secret_texts import masked, secrets_of
from pytest_dlperf.core.wire import rank_file
from pytest_dlperf.core.wire_model import DTYPE_OF_PRECISION, SHORTER_DTYPES, ArithmeticRecord
from pytest_dlperf.core.wire_records import FailureRecord
from pytest_dlperf.core.writable import error_words, message_of, shortened, traceback_words


class WorkerFailure(Exception):
    """A check failed in this rank; ``code`` is stable, the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def failure_record(error: BaseException) -> FailureRecord:
    """Return the record of what ended the training of this rank, without its secrets.

    In a container its environment is not that of the session, which masks once more.
    """
    secrets = secrets_of(os.environ)
    words = message_of(error) if isinstance(error, WorkerFailure) else error_words(error)
    return FailureRecord(
        code=error.code if isinstance(error, WorkerFailure) else "exception",
        message=shortened(masked(words, secrets)),
        traceback=shortened(masked(traceback_words(error), secrets)),
        time=time.time(),
    )


#: The file must stay open; a signal's handler writes to it.
_FILES: list[TextIO] = []


def watch(folder: Path, rank: int) -> None:
    """Write the stacks of all threads to ``rank<N>.stack`` at SIGTERM.

    What SIGTERM does is not changed: the handler that was there before is called afterwards. A
    handler that is set later replaces this one, so this is called again after a framework was
    imported.
    """
    if not _FILES:
        path = folder / rank_file(rank, "stack")
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND, 0o600)
        _FILES.append(os.fdopen(descriptor, "w", encoding="utf-8"))
        _FILES[0].write(f"main {threading.main_thread().ident:#x}\n")
        _FILES[0].flush()
        os.register_at_fork(after_in_child=_leave)
    faulthandler.unregister(signal.SIGTERM)
    faulthandler.register(signal.SIGTERM, _FILES[0], chain=True)


def watch_crashes() -> None:
    """Write the stacks as well when this rank crashes, before the framework's own handlers.

    To be called after the framework's import, which sets those handlers. A user's own
    ``faulthandler.enable()`` is left alone.
    """
    if not faulthandler.is_enabled():
        faulthandler.enable(_FILES[0])


def _leave() -> None:
    """Write no more; called in a forked child, whose stack is not this rank's."""
    faulthandler.unregister(signal.SIGTERM)


def check_batch(
    input_shapes: Sequence[Sequence[int]] | None,
    batch_size_per_device: int,
    dimension: int = 0,
    *,
    in_parts: bool = False,
) -> None:
    """Raise ``WorkerFailure`` unless an input has the batch as its ``dimension``.

    ``in_parts``: or an equal part of it, as a stage of a pipeline has. The pytest side reports
    shapes that could not be seen.
    """
    sizes = {shape[dimension] for shape in input_shapes or () if len(shape) > dimension}
    parts = range(1, batch_size_per_device) if in_parts else ()
    fitting = {
        batch_size_per_device,
        *(part for part in parts if batch_size_per_device % part == 0),
    }
    if input_shapes and not sizes & fitting:
        raise WorkerFailure(
            "batch-mismatch",
            f"the case declares a batch of {batch_size_per_device} per device, but the model's "
            f"inputs have the shapes {[list(shape) for shape in input_shapes]}; the rate would "
            "count work that was not done. Where the batch is not their first dimension, say "
            "options={'batch_dimension': 1}",
        )


def check_precision(
    flops_by_dtype: Mapping[str, int] | None,
    precision: str,
    scaler: Any,
    remedy: str,
    *,
    uncounted: Mapping[str, Sequence[str]],
) -> None:
    """Raise ``WorkerFailure`` if the matrix work was done in another dtype than the case names.

    fp32 and tf32: nothing of it in a shorter dtype. Mixed and pure precisions: most of it in
    theirs, unless an operator that nobody counts (``uncounted``, with the dtypes it was given)
    may have done most; the pytest side says so. ``amp`` must also scale its loss. ``remedy`` is
    what a workload of this framework does to compute in the case's dtype.
    """
    if not flops_by_dtype:
        return
    expected = DTYPE_OF_PRECISION[precision]
    total = sum(flops_by_dtype.values())
    share = flops_by_dtype.get(expected, 0) / total
    shorter = sum(flops_by_dtype.get(name, 0) for name in SHORTER_DTYPES) / total
    is_unknown = any(expected in dtypes for dtypes in uncounted.values())
    if (share < 0.5 and not is_unknown) or (expected == "float32" and shorter > 0):
        shares = ", ".join(f"{name} {count / total:.0%}" for name, count in flops_by_dtype.items())
        if precision == "fp8":
            remedy = (
                "What was converted must multiply by torch._scaled_mm: torchao does on GPUs of "
                "compute capability 8.9 or more, and elsewhere it only imitates it; Transformer "
                "Engine's products are not PyTorch's, and cannot be seen"
            )
        raise WorkerFailure(
            "precision-mismatch",
            f"the case names {precision}, whose matrix work is in {expected}; this run did it "
            f"in {shares}. {remedy}",
        )
    if precision == "amp" and (scaler is None or not scaler.is_enabled()):
        raise WorkerFailure("precision-mismatch", "amp without loss scaling: use job.scaler")


def _work_where(in_step: Mapping[str, Sequence[bool]], *, is_on: bool) -> str:
    """Return the work of a step at which TF32 was on, or off, in words."""
    work = [(name, states) for name, states in in_step.items() if is_on in states]
    return " and ".join(name if len(states) == 1 else f"some of {name}" for name, states in work)


#: Relative error of a product above which it was not done in float32: TF32 has 3e-4.
_FLOAT32_ERROR: Final = 1e-5


def check_tf32(arithmetic: ArithmeticRecord, precision: str, *, on_gpu: bool) -> None:
    """Raise ``WorkerFailure`` if float32 work was done in another precision than the case names.

    Flags count on a GPU only: on a CPU they are recorded, and do nothing. The product counts on
    both. Other precisions than fp32 and tf32 leave the flags to the workload.
    """
    override = arithmetic["overrides"].get("NVIDIA_TF32_OVERRIDE")
    flags = arithmetic["tf32"] if on_gpu else {}
    on = [] if override == "0" else [name for name, is_on in flags.items() if is_on]
    off = list(flags) if override == "0" else [n for n, is_on in flags.items() if not is_on]
    error = arithmetic["product_error"]
    in_step = arithmetic.get("tf32_in_step", {}) if on_gpu and override != "0" else {}
    when, wrong = "after the measured window", ""
    if precision == "fp32" and on:
        wrong = f"TF32 is on for {' and '.join(on)}; leave it off in the workload"
    elif precision == "fp32" and (work := _work_where(in_step, is_on=True)):
        when = "in the iteration that was looked at"
        wrong = f"TF32 was on for {work}; leave it off in the step"
    elif precision == "fp32" and on_gpu and override not in {None, "", "0"}:
        wrong = f"NVIDIA_TF32_OVERRIDE={override} is set; unset it"
    elif precision == "fp32" and error is not None and error > _FLOAT32_ERROR:
        wrong = (
            f"a float32 product has a relative error of {error:.1g}, where float32 has less than "
            f"{_FLOAT32_ERROR:.0g}; look for settings of the workload or the environment that "
            "allow shorter arithmetic"
        )
    elif precision == "tf32" and off:
        why = "NVIDIA_TF32_OVERRIDE=0 is set; unset it" if override == "0" else ""
        wrong = why or f"TF32 is off for {' and '.join(off)}; leave it on in the workload"
    elif precision == "tf32" and (work := _work_where(in_step, is_on=False)):
        when = "in the iteration that was looked at"
        wrong = f"TF32 was off for {work}; leave it on in the step"
    if wrong:
        raise WorkerFailure(
            "precision-mismatch",
            f"the case names {precision}, and {when} {wrong}, or name the "
            "precision that this training has",
        )


def check_data(folder: str | None, *, used: bool) -> None:
    """Raise ``WorkerFailure`` if real data were asked for, and nothing was read."""
    if folder is not None and not used:
        raise WorkerFailure(
            "data-unused",
            f"--dlperf-data={folder} was given, and the workload read nothing through "
            "job.batches(loader), so it trained on other data; leave the option out for it",
        )
