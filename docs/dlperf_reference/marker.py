"""Keys of the marker, from those that ``expand`` knows; defaults from the types."""

from __future__ import annotations

import dataclasses
from typing import Final

from dlperf_reference.markdown import code, table
from pytest_dlperf.cases.marker import _DEFAULTS, AXES, KEYS
from pytest_dlperf.core.case import PLACEHOLDERS, PRECISIONS, SIZES, Case
from pytest_dlperf.core.cost import COST_FIGURES
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.protocol import PROTOCOLS, Protocol
from pytest_dlperf.core.wire_parallel import DATA, SPLITS
from pytest_dlperf.launch.launchers import LAUNCHERS


def _words(words: object) -> str:
    return ", ".join(code(str(word)) for word in words)  # type: ignore[attr-defined]


#: Beside the keys: all cases at once.
CASES: Final = "cases"
MEANINGS: Final = {
    "batch_size_per_device": "samples that each device trains in one iteration",
    CASES: "cases made by `pytest_dlperf.expand(...)`; then no other key may be there",
    "command": "a program of your own, word by word, in place of a workload "
    f"([how](../own-program.md)); words may hold {_words('{' + w + '}' for w in PLACEHOLDERS)}",
    "cost": "how much more of each figure of a step's cost passes under `--dlperf-cost`: a "
    f'mapping of figures ({_words(COST_FIGURES)}) to shares, such as `{{"peak_memory": "1%"}}`; '
    "nothing more passes of a figure that it leaves out",
    "devices_per_process": "devices that each process drives, as in JAX, or in a program of your "
    "own: a layout of 8 devices a node is then started as 8 / this many processes (at least one); "
    "a word of the id above 1",
    "epochs": "length of a whole training: `dlperf report` projects its time",
    "flops_per_unit": "operations of the model for one unit of work, forward and backward, by "
    "which MFU is reckoned; for instance `pytest_dlperf.transformer_flops(...)` "
    "([how](../metrics.md)); "
    "three times what is counted in the forward pass, if left out",
    "framework": f"one of {_words(FRAMEWORKS)}; `None` for a command that needs none of them "
    "(`none` in its id)",
    "iterations": "iterations of a run, warm-up included",
    "known": "a slowdown that is let pass for a while: a mapping of `issue`, `until` and "
    "`change` ([how](../verdicts.md))",
    "launcher": f"`auto` (the framework's own), `None` (the command starts its ranks itself), "
    f"or one of {_words(sorted(LAUNCHERS))}",
    "layout": 'nodes and devices of each: `"1n8g"` is one node with 8 GPUs, `"1n2c"` two CPU '
    "processes",
    "log_format": "how a program's log is read: a format's name, or "
    "`pytest_dlperf.pattern(...)` ([log formats](../howto/log-format.md))",
    "loss": "`falls`: the loss must fall over a run; `finite`: it must only be a finite number",
    "max_runs": "at most this many runs to confirm a verdict",
    "metrics": "metrics that fail the case as well: names, or a mapping of names to tolerances "
    '(`"10%"`, `"count"`, `None`) ([metrics](../metrics.md))',
    "options": "a mapping of names to texts and numbers, for the workload (`job.options`), or for "
    "words of a command (`{name}`); another value is another condition, and a list is an axis "
    "([below](#axes-of-your-own))",
    "parallel": "how the ranks copy, shard and split the model, a word of the id: one of "
    f"{_words(DATA)}, then {_words(f'{name}N' for name in SPLITS)} "
    "([below](#parallelism))",
    "parameters": "parameters of the whole model: the shards and stages of a replica must add up "
    "to this number",
    "precision": f"one of {_words(PRECISIONS)}; `amp` is float16 autocast with loss scaling, "
    "`fp8` is bfloat16 autocast around products in float8 (PyTorch)",
    "protocol": f"a named protocol, which the other keys then change: {_words(PROTOCOLS)}",
    "runs": "runs (launches) of a case: fewer when a screen of 3 has certified it, more up to "
    "`max_runs` when it stays open",
    "samples_per_epoch": "length of an epoch in the case's unit: `dlperf report` projects the "
    "time of a training",
    "size": f"one of {_words(SIZES)}; of a suite with both, `full` runs on GPUs, `tiny` on CPUs",
    "speedup": '`"one-device"`: a case on several devices is also measured on one, in the same '
    'session, and its speedup is gated; a layout such as `"1n8g"`: on that in place of one; '
    "`None`: its throughput alone, in half as many launches ([scaling](../scaling.md))",
    "suite": "first part of the case's id; the test's name without `test_`, if left out",
    "timeout_s": "seconds after which a run is ended",
    "tolerance": '`"3%"` or 0.03: the slowdown up to which the case passes; 5 %, if left out',
    "unit": "what is counted: images, clips, tokens, …; of which each entry of a batch is one, or "
    "the work must be said ([units](../concepts/rates.md))",
    "version": "raise it when the workload was changed on purpose: older baselines are then "
    "`incomparable`",
    "warmup": "iterations before the measured window",
    "warmup_s": "seconds that the warm-up of a workload takes at least: where its iterations take "
    "fewer, more are done, which count for nothing (so the workload must be able to do more than "
    "`iterations`); how far the loss falls is then taken from the warm-up before them",
    "work": "what one rank does in one iteration, in the unit: 512 for 8 sequences of 64 tokens; "
    "the batch size, if left out ([units](../concepts/rates.md))",
    "workload": '`"module:function"`, the one positional argument: builds the training in every '
    "rank, and returns one step",
}


def keys() -> frozenset[str]:
    """Return every key that the marker takes."""
    return frozenset({*KEYS, CASES})


def text() -> str:
    """Return the table of the marker's keys; raise ``KeyError`` for one without a meaning."""
    rows = (
        (code(key), "yes" if key in AXES else "", _default(key), MEANINGS[key])
        for key in sorted(keys())
    )
    return table(("key", "may be a list", "default", "meaning"), rows)


def _default(key: str) -> str:
    if key == "protocol":
        return code("default")
    if key in _DEFAULTS:
        return code(_DEFAULTS[key])
    for kind in (Protocol, Case):
        found = {field.name: field for field in dataclasses.fields(kind)}.get(key)
        if found is None or found.default is dataclasses.MISSING:
            continue
        return "" if found.default in ("", (), None) else code(str(found.default))
    return ""
