"""Problem codes, from the code that gives them."""

from __future__ import annotations

from typing import Final

from dlperf_reference.markdown import code, table
from dlperf_reference.source import problem_codes

MEANINGS: Final = {
    "aborted-at-teardown": "every rank finished its training, then the launcher failed or hung",
    "all-reduce-without-nccl": "Horovod was built without NCCL, so gradients of GPUs go over the "
    "host",
    "alternating": "the arms of an A/B were launched one after the other, and why",
    "batch-mismatch": "the model was fed another batch than the declared one",
    "batch-size-mismatch": "a log tells of another batch size than its path or its declaration",
    "batch-unchecked": "nobody could see which batch the model was given",
    "between-steps": "more than a tenth of a marked program's time was between its steps",
    "checked-in-part": "the precision was looked at in part: operators ran that nobody can count, "
    "or a program that asks for checks could not be looked at",
    "averages-differ": "it matters over what the printed numbers of a log are means; no number is "
    "given",
    "clock-mismatch": "the time stamps of a log's lines contradict its rates",
    "clocks-disagree": "the steps by the GPU's events do not add up to the window by the host's "
    "clock",
    "collectives-unknown": "the share of collectives in a step could not be measured",
    "cut-short": "`--dlperf-budget`, SIGTERM or Ctrl-C ended the case before its verdict",
    "data-bound": "waiting for data took more than a tenth of the time",
    "data-empty": "the data folder holds no sample, or none of the needed kind",
    "data-format": "the data folder does not hold the data set as the suite reads it",
    "data-image": "an image cannot be read, or does not fit its labels",
    "data-label": "a label of the data folder is out of the model's range",
    "data-line": "a line of a list of samples cannot be read, or names a sample without content",
    "data-md5": "an archive in the data folder is another one than the report's",
    "data-missing": "the data folder is not there",
    "data-needs-nvimgcodec": "decoding images on the GPU needs nvImageCodec, which is not "
    "installed",
    "data-needs-pillow": "reading images needs Pillow, which is not installed",
    "data-packed": "the data folder holds an archive that must be unpacked first",
    "data-record": "a TFRecord of the data folder is damaged, or lacks a field",
    "data-too-few": "the data folder has too few samples for one batch of every rank",
    "data-unreadable": "a sample of the data folder could not be read",
    "data-unused": "`--dlperf-data` was given, and the training never asked for data",
    "device-unusable": "the framework cannot use the device",
    "disturbed": "others used the machine, in every repetition of a run",
    "drift": "steps became slower or faster within the measured window",
    "duplicate-ranks": "several ranks print the same step of a log, or a program prints it twice; "
    "taken once, not added",
    "epoch-stalls": "the first steps of an epoch are much slower than the median",
    "exception": "a rank or a marked program failed; the message is its exception",
    "few-digits": "a log prints its speeds with so few digits that rounding may be more than a "
    "twentieth of them",
    "framework-too-new": "TensorFlow brings a Keras whose variables Horovod cannot average",
    "framework-unchecked": "the case names no framework, so what needs one is not checked",
    "host-waits": "the host did not run ahead of the GPU, which waits for the next step",
    "horovod-unusable": "Horovod cannot be used with this TensorFlow",
    "implausible-utilisation": "a share of the device's peak is above 1.05, and left out",
    "implausible-speedup": "more devices are faster than their number allows",
    "imports-unknown": "nothing shows that the two arms of a pair ran different code",
    "insufficient-data": "too few iterations in a log after its warm-up",
    "left-out": "more than a tenth of the time went into phases that the rate leaves out, or "
    "prints of a log were left out that have the time of an evaluation in them, or its times "
    "leave out a part of an iteration",
    "launch-retried": "the infrastructure failed a launch, which was repeated",
    "loss-not-falling": "the loss did not fall over a run",
    "loss-not-finite": "a loss is NaN or infinite",
    "machine-drifted": "in lock-step the steps of both arms became slower or faster alike",
    "marked-twice": "a step began within a step, or ended twice",
    "step-not-begun": "`step()` was called without `with`",
    "metric-unknown": "a built-in metric is gated that no run has, so nothing is compared",
    "named-twice": "a file was named more than once; it counts once",
    "not-trained": "a log says that more of the measured iterations trained nothing than loss "
    "scaling skips; no number is given",
    "one-node": "a log names the devices of a node and no number of nodes; one was taken",
    "per-device": "nothing says how many devices a log is of; the rate is that of one device",
    "precision-mismatch": "the work was done in another precision than the declared one",
    "precision-unchecked": "no matrix product or convolution was seen, or operators that nobody "
    "can count may have done most of them, or some in a shorter dtype",
    "precision-unsupported": "the framework has no such precision on this device",
    "cuda-graphs-skipped": "torch.compile left out CUDA graphs that it was to make",
    "parameters-donated": "the declared parameters were donated to a step of JAX",
    "prints-unread": "some prints of a log have their speed in another unit than the pattern "
    "reads; no number is given where they are more than a twentieth",
    "recompiled": "torch.compile or XLA compiled within the measured window",
    "replicas-differ": "devices of one process hold other parameters after training",
    "running-mean": "printed rates are means since an early step; they were taken apart",
    "speedup-unknown": "the layout that a speedup is over cannot be trained; the case is judged "
    "without",
    "runs-taken": "`--dlperf-resume` uses the runs that the ended session had of this case",
    "steps-skipped": "a few of the measured iterations of a log trained nothing, as loss scaling "
    "does; the rate counts them",
    "several-names": "logs of several names were taken for runs of one training, as listed",
    "several-runs": "several runs are in one log; no number is given",
    "shared-machine": "others disturbed a pair, and it counts, as both arms met them",
    "step-returned-no-loss": "a step returned, or a mark said, nothing that is a loss",
    "truncated": "a log ends before its training does",
    "turns-by-time": "turns were given by time to a program whose log alone is read; how many "
    "iterations do not count",
    "unfrozen": "a process of an arm could not be frozen while the other arm had its turns",
    "unknown-format": "no format fits the log, or more than one",
    "unreadable-log": "a file is empty, compressed or binary, and not the text of a log",
    "unknown-scale": "a log does not say whether its rates are of a device or of all",
    "unstable": "mean of rates, median and time-weighted rate disagree by more than a tenth",
    "turns-ended": "the process that gives the arms of a pair their turns has ended",
    "turns-unreachable": "a rank cannot reach that process, so that launches alternate",
    "watched-out-of-memory": "the iteration that is looked at, in which compiled functions run as "
    "plain Python, does not fit the device's memory",
    "work-in-part": "a step had less than a whole one, and its work is said as a constant",
    "work-invalid": "a mark says a work that is no finite number above 0",
    "work-unknown": "nothing says how much work an iteration is, in a unit that no batch counts",
    "workload-not-found": "the module or function of the workload is not there",
    "workload-returned-nothing": "the workload's function returned no step",
    "world-size-mismatch": "there are more or fewer ranks than declared, or a log says so",
}
#: Who gives a code, by the package's folder.
_WHERE: Final = {
    "logs": "logs",
    "judged": "logs",
    "worker": "a rank",
    "suites": "a rank",
    "measure": "a measured run",
    "judge": "the judgement",
    "core": "the judgement",
}


def text() -> str:
    """Return the table of the problem codes; raise ``KeyError`` for one without a meaning."""
    rows = (
        (
            code(name),
            ", ".join(sorted({_WHERE.get(m.split("/")[0], "a measured run") for m in modules})),
            MEANINGS[name],
        )
        for name, modules in sorted(problem_codes().items())
    )
    return table(("code", "of", "meaning"), rows)
