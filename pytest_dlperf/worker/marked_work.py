"""The work of a marked step: what may be said of it, and what follows from its rows."""

from __future__ import annotations

import math
from typing import Any

from pytest_dlperf.core.wire import MarkSettings
from pytest_dlperf.worker.batch_rows import StepRows
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.records import kept_number


def said_work(amount: Any) -> Any:
    """Return the work that a mark says, as a number, or as a copy of a tensor of one element.

    A tensor of a GPU is not waited for; ``checked_work`` looks at it after the window. Raises
    ``WorkerFailure`` for anything else, and for a number that is not finite and above 0.
    """
    dtype = getattr(amount, "dtype", None)
    if dtype is not None:
        if getattr(dtype, "kind", "f") not in "fiu" or "bool" in str(dtype):
            raise _refused(f"work is an array of {dtype}")
        if math.prod(amount.shape) != 1:
            raise _refused(f"work is an array of shape {list(amount.shape)}")
    elif isinstance(amount, bool | str | bytes) or not hasattr(amount, "__float__"):
        raise _refused(f"work={amount!r:.80}")
    try:
        # An array of one element is no scalar, which NumPy says by a warning
        scalar = amount.reshape(()) if dtype is not None and len(amount.shape) else amount
        kept = kept_number(scalar)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise _refused(f"work={amount!r:.80}") from error
    return checked_work(kept) if isinstance(kept, float) else kept


def checked_work(kept: Any) -> float:
    """Return kept work as a number; raise ``WorkerFailure`` unless it is finite and above 0."""
    amount = float(kept)
    if not (math.isfinite(amount) and amount > 0):
        raise _refused(f"work={amount:g}")
    return amount


def _refused(given: str) -> WorkerFailure:
    return WorkerFailure(
        "work-invalid",
        f"a marked step says {given}; give one finite number above 0: how much this rank trains "
        "in the step, in the case's unit",
    )


def work_of_step(settings: MarkSettings, marked: Any, rows: StepRows | None) -> Any:
    """Return the work of one replica in a step, as ``said_work`` does.

    ``marked`` is what the mark says, None for nothing; ``rows`` what a callback saw of its
    batches. Raises ``WorkerFailure`` where neither they nor the case say it, and where a step had
    less than what a constant stands for.
    """
    is_constant = marked is not None or settings.is_work_declared
    if rows is not None and rows.is_part and is_constant:
        raise WorkerFailure(
            "work-in-part",
            f"a step had {_in_words(rows)}, and its work is said as that of a whole one. Leave "
            "what is not whole out (drop_last=True; of Hugging Face's Trainer "
            "dataloader_drop_last=True, and an epoch of whole accumulations), or give the "
            "callback a function of the batch: StepCallback(work=lambda batch: ...)",
        )
    if marked is not None or rows is None or settings.is_work_declared:
        amount = settings.work if marked is None else marked
        if amount is None:
            raise _unknown(settings.unit)
        return amount
    if settings.work is None:
        raise _unknown(settings.unit)
    if rows.rows is None:
        raise WorkerFailure("work-unknown", _uncounted(rows))
    # A loader's batch is that of all replicas that the process has a part of
    return said_work(rows.rows / max(1.0, settings.devices_per_process / settings.split))


def _uncounted(rows: StepRows) -> str:
    if not rows.batches:
        return (
            "a step's batches did not come from the loader that the trainer named. Where it "
            "resumes within an epoch, let it begin that epoch again (ignore_data_skip=True of "
            "Hugging Face's Trainer), or say the work of a step as a number: "
            "StepCallback(work=...)"
        )
    whole = rows.whole_rows // max(1, rows.whole_batches)
    return (
        "a step's batches show no rows that can be counted: none of their arrays is as long as a "
        f"whole batch, {whole}. Say the work of a step to the callback, as a number or as a "
        "function of the batch: StepCallback(work=lambda batch: ...)"
    )


def _in_words(rows: StepRows) -> str:
    if rows.rows is not None:
        return f"{rows.rows} of {rows.whole_rows} rows"
    return f"{rows.batches} of {rows.whole_batches} batches"


def _unknown(unit: str) -> WorkerFailure:
    return WorkerFailure(
        "work-unknown",
        f"the case counts {unit}, and a marked step does not say how many {unit} its rank "
        "trains in it: the batch size counts samples. Say it with the step "
        "(step(work=...)), or in the marker (work=...)",
    )
