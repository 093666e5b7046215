"""Cases: which training to measure, on which devices, and how (the protocol)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final, Literal

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.id_words import ID_WORDS
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.log_pattern import LogPattern
from pytest_dlperf.core.metric import Gate
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.quantity import counts_batch, is_number, parse_share
from pytest_dlperf.core.wire_parallel import Parallel

_KEYS: Final = ("issue", "until", "change")
_EXAMPLE: Final = 'known={"issue": "#123", "until": "2027-01-31", "change": "-4%"}'


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A slowdown that is tolerated until a date."""

    issue: str
    #: The last day on which it is tolerated, ISO 8601.
    until: str
    #: now / before - 1 of the throughput: below 0.
    change: float

    @classmethod
    def parse(cls, value: Any) -> Known:
        """Return the slowdown that ``value`` declares; raise ``UsageError`` if it is invalid."""
        if not isinstance(value, Mapping) or set(value) != set(_KEYS):
            raise UsageError(f"known {value!r}: give issue, until and change, as in {_EXAMPLE}")
        issue, until, change = (str(value[key]).strip() for key in _KEYS)
        if not issue:
            raise UsageError(f"known: issue is empty; name who works on it, as in {_EXAMPLE}")
        try:
            last = date.fromisoformat(until)
        except ValueError:
            raise UsageError(
                f"known: until {until!r} is not a date; write it as in {_EXAMPLE}"
            ) from None
        if not change.startswith("-"):
            raise UsageError(
                f"known: change {change!r} is not a slowdown; write it as in {_EXAMPLE}"
            )
        share = parse_share(change[1:], what="known: change")
        if not 0 < share < 1:
            raise UsageError(f"known: change {change!r} must be between -100 % and 0")
        return cls(issue=issue, until=last.isoformat(), change=-share)


#: The framework of a program that needs none of them.
NO_FRAMEWORK: Final = "none"
PRECISIONS: Final = ("fp32", "tf32", "amp", "bf16", "pure_fp16", "fp8")
#: Precisions that have kernels and loss scaling on GPUs only.
GPU_PRECISIONS: Final = ("tf32", "amp", "pure_fp16")
SIZES: Final = ("full", "tiny")
#: Placeholders that a word of ``Case.command`` may contain.
PLACEHOLDERS: Final = (
    "batch_size_per_device",
    "devices_per_node",
    "devices_per_process",
    "iterations",
    "nodes",
    "parallel",
    "precision",
    "size",
    "warmup",
    "world_size",
)
LossRule = Literal["falls", "finite"]
#: ``Case.speedup`` where the divisor is one device of the layout's own kind.
ONE_DEVICE: Final = "one-device"
OptionValue = str | int | float | bool
_NAME = re.compile(r"[A-Za-z0-9_]+")
_WORKLOAD = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One training to measure: a suite at one framework, precision, batch size and layout."""

    suite: str
    framework: str
    precision: str
    batch_size_per_device: int
    layout: Layout
    #: ``module:function`` that the worker trains; empty where ``command`` is a whole program.
    workload: str = ""
    #: A user's own program, word by word; ``PLACEHOLDERS`` are filled in.
    command: tuple[str, ...] = ()
    #: The format of the program's log; empty: detected, or the program marks its own iterations.
    log_format: str | LogPattern = ""
    size: str = "full"
    launcher: str = "auto"
    #: What is counted. Empty for a program that did not declare it: then the unit of its log, or
    #: else samples.
    unit: str = "samples"
    #: Work of one rank in one iteration, in the unit; of one replica where ``parallel`` splits it.
    #: None: its batch where the unit counts that; otherwise the training says it.
    work: int | None = None
    #: How the ranks copy, shard and split the model, as in ``fsdp2-tp2``; empty: not said.
    parallel: str = ""
    #: Parameters of the whole model, to which the ranks' shards must add up; None: not said.
    parameters: int | None = None
    #: Floating-point operations of the model for a unit of work, forward and backward, without
    #: what is computed again; None: three times those that are counted in the forward pass.
    flops_per_unit: float | None = None
    #: Devices that one process drives, at most those of a node: a rank is a process, not a device.
    devices_per_process: int = 1
    protocol: Protocol = field(default_factory=Protocol)
    tolerance: float | None = None
    #: A slowdown that is tolerated until a date.
    known: Known | None = None
    options: tuple[tuple[str, OptionValue], ...] = ()
    #: Words of the id for options that are lists in the marker, and for pytest's parametrize.
    axes: tuple[str, ...] = ()
    loss: LossRule = "falls"
    #: The divisor of the throughput of several devices: that of the same case on one device, or on
    #: this layout, which is then measured in the same session; None: no speedup is measured.
    speedup: str | None = ONE_DEVICE
    #: Metrics that fail the case as well.
    metrics: tuple[Gate, ...] = ()
    #: How much more of each figure of its cost passes; nothing, where it says nothing.
    cost: tuple[Gate, ...] = ()
    version: int = 1
    #: Ranks of the largest CPU layout declared or asked for: each rank gets cores // this.
    cpu_ranks_max: int = 1
    #: Length of a whole training, in the case's unit and in epochs; reports project its duration.
    samples_per_epoch: int | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        self._check_names()
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise UsageError(f"{self.suite}: tolerance {self.tolerance:.0%} must be below 100 %")
        self._check_training()
        flops = self.flops_per_unit
        if flops is not None and not (is_number(flops) and 0 < flops < math.inf):
            raise UsageError(
                f"{self.suite}: flops_per_unit {flops!r}: give the operations for one "
                f"{self.unit.removesuffix('s') or 'unit'}, a finite number above 0"
            )
        for name, value in (
            ("batch_size_per_device", self.batch_size_per_device),
            ("devices_per_process", self.devices_per_process),
            ("version", self.version),
            ("work", 1 if self.work is None else self.work),
            ("parameters", 1 if self.parameters is None else self.parameters),
        ):
            if type(value) is not int or value < 1:
                raise UsageError(
                    f"{self.suite}: {name} {value!r} must be a whole number, 1 or more"
                )

    def _check_names(self) -> None:
        if not _NAME.fullmatch(self.suite):
            raise UsageError(f"suite {self.suite!r}: use letters, digits and _ only")
        for kind, name, choices in (
            ("framework", self.framework, (*FRAMEWORKS, NO_FRAMEWORK)),
            ("precision", self.precision, PRECISIONS),
            ("size", self.size, SIZES),
            ("loss rule", self.loss, ("falls", "finite")),
        ):
            if name not in choices:
                raise UsageError(
                    f"{self.suite}: unknown {kind} {name!r}; known: {', '.join(map(str, choices))}"
                )
        if bool(self.workload) is bool(self.command):
            raise UsageError(f"{self.suite}: give either a workload, or the command of a program")
        for word in self.axes:
            if not ID_WORDS.fullmatch(word):
                raise UsageError(f"{self.suite}: {word!r} can be no word of an id")
        if self.workload and self.framework == NO_FRAMEWORK:
            raise UsageError(
                f"{self.suite}: framework None is for the command of a program; a workload is "
                f"trained with one of {', '.join(FRAMEWORKS)}"
            )
        self._check_speedup()
        self._check_parallel()
        self._check_devices()
        self._check_command()
        if self.workload and not _WORKLOAD.fullmatch(self.workload):
            raise UsageError(
                f"{self.suite}: workload {self.workload!r} is not a function; "
                "write module:function, for instance mymodel:build"
            )

    def _check_parallel(self) -> None:
        if self.parallel and "parallel" in dict(self.options):
            raise UsageError(
                f"{self.suite}: parallel={self.parallel!r} and an option parallel; give it one "
                "name or the other"
            )
        if type(self.parallel) is not str:
            raise UsageError(
                f"{self.suite}: parallel {self.parallel!r}: give a text, as in 'fsdp2-tp2'"
            )
        try:
            parsed = Parallel.parse(self.parallel)
        except ValueError as error:
            raise UsageError(f"{self.suite}: {error}") from None
        if str(parsed) != self.parallel:
            raise UsageError(
                f"{self.suite}: parallel {self.parallel!r} is {str(parsed)!r}, and one mesh has "
                "one id; write it so"
            )

    def _check_devices(self) -> None:
        if self.devices_per_process == 1:
            return
        if self.workload and not FRAMEWORKS[self.framework].drives_several:
            raise UsageError(
                f"{self.suite}: devices_per_process={self.devices_per_process!r} is for JAX, and "
                f"for programs; a process of {self.framework} drives one device"
            )
        if self.parallelism.pp > 1:
            raise UsageError(
                f"{self.suite}: parallel={self.parallel!r} with devices_per_process: stages of a "
                "pipeline are compared by process; leave one of the two out"
            )

    def _check_speedup(self) -> None:
        if self.speedup is None or self.speedup == ONE_DEVICE:
            return
        try:
            Layout.parse(str(self.speedup))
        except UsageError as error:
            raise UsageError(
                f"{self.suite}: unknown speedup {self.speedup!r}; known: {ONE_DEVICE}, None, or "
                "a layout to compare with, for instance 1n8g"
            ) from error

    def _check_command(self) -> None:
        for word in self.command:
            if type(word) is not str or not word or "\0" in word:
                raise UsageError(
                    f"{self.suite}: command has the word {word!r}; give texts that are not empty"
                )
        if self.protocol.warmup_s and "warmup_s" in dict(self.options):
            raise UsageError(f"{self.suite}: an option warmup_s, and the key; rename the option")
        if self.command and self.protocol.warmup_s:
            raise UsageError(
                f"{self.suite}: warmup_s is for a workload; a program trains as many "
                "iterations as it was written to, so raise warmup"
            )
        if self.command and self.parameters is not None:
            raise UsageError(
                f"{self.suite}: parameters is for a workload; nobody looks into a program's model"
            )
        if self.log_format and not self.command:
            raise UsageError(f"{self.suite}: log_format is for a command; a workload writes none")
        if self.log_format and self.metrics:
            names = ", ".join(gate.name for gate in self.metrics)
            raise UsageError(
                f"{self.suite}: metrics ({names}) are of a workload, or of a program with marks; "
                "a program that is read by its log has none"
            )

    def _check_training(self) -> None:
        lengths = {"samples_per_epoch": self.samples_per_epoch, "epochs": self.epochs}
        for name, value in lengths.items():
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(
                    f"{self.suite}: {name} {value!r} must be a whole number, 1 or more"
                )
        missing = [name for name, value in lengths.items() if value is None]
        if len(missing) == 1:
            raise UsageError(
                f"{self.suite}: {missing[0]} is missing; a training's time needs both "
                "samples_per_epoch and epochs"
            )

    @property
    def training_samples(self) -> int | None:
        """Work of a whole training without its validation; None if it is not declared."""
        per_epoch, epochs = self.samples_per_epoch, self.epochs
        return None if per_epoch is None or epochs is None else per_epoch * epochs

    def command_line(self, *, further_iterations: int = 0) -> tuple[str, ...]:
        """Return the command with its placeholders filled in; other braces stay.

        It is told to train ``further_iterations`` beyond those of the case.
        """
        of_layout = {
            "devices_per_node": self.layout.devices_per_node,
            "nodes": self.layout.nodes,
            "iterations": self.protocol.iterations + further_iterations,
            "warmup": self.protocol.warmup,
        }
        values = dict(self.options)
        for name in PLACEHOLDERS:
            value = of_layout[name] if name in of_layout else getattr(self, name)
            # An option may have the name of what the marker leaves empty: parallel
            values[name] = value if value != "" else values.get(name, "")

        def fill(match: re.Match[str]) -> str:
            return str(values[match[1]])

        names = (*PLACEHOLDERS, *(re.escape(name) for name, _ in self.options))
        placeholder = re.compile("\\{(" + "|".join(names) + ")\\}")
        return tuple(placeholder.sub(fill, word) for word in self.command)

    @property
    def words(self) -> tuple[str, ...]:
        """Words of the id between the batch and the layout."""
        devices = self.devices_per_process
        return (
            *([self.parallel] if self.parallel else []),
            *([f"per_process{devices}"] if devices > 1 else []),
            *self.axes,
        )

    @property
    def id_without_layout(self) -> str:
        """What the ids of cases that differ by layout alone have in common."""
        suite = self.suite if self.size == "full" else f"{self.suite}.{self.size}"
        batch = f"bs{self.batch_size_per_device}"
        return "-".join((suite, self.framework, self.precision, batch, *self.words))

    @property
    def id(self) -> str:
        """Id such as ``tsm-torch-amp-bs16-1n8g`` or ``gpt.tiny-torch-bf16-bs2-seq64-1n2c``."""
        return f"{self.id_without_layout}-{self.layout}"

    @property
    def world_size(self) -> int:
        """Number of devices, each of which is a rank unless processes drive several."""
        return self.layout.world_size

    @property
    def devices_of_process(self) -> int:
        """Devices that each process drives here: no more than a node has."""
        return min(self.devices_per_process, self.layout.devices_per_node)

    @property
    def ranks(self) -> int:
        """Number of ranks: processes that train."""
        return self.world_size // self.devices_of_process

    @property
    def ranks_per_node(self) -> int:
        """Number of ranks on each node."""
        return self.layout.devices_per_node // self.devices_of_process

    @property
    def parallelism(self) -> Parallel:
        """The degrees that ``parallel`` names."""
        return Parallel.parse(self.parallel)

    @property
    def misfit(self) -> str:
        """Why the layout does not make whole replicas; empty if it does."""
        per_node, per_process = self.layout.devices_per_node, self.devices_of_process
        if per_node % per_process:
            return f"{self.layout} has {per_node} devices a node, no multiple of {per_process}"
        split, world_size = self.parallelism.split, self.world_size
        if world_size % split == 0:
            return ""
        needed = f"{self.parallel} needs a multiple of {split} devices"
        return f"{needed}, and {self.layout} has {world_size}"

    @property
    def replicas(self) -> int:
        """Number of devices, or groups that split a model, which train on other data."""
        return self.world_size // self.parallelism.split

    @property
    def global_batch_size(self) -> int:
        """Entries of the batches of all replicas in one iteration."""
        return self.batch_size_per_device * self.replicas

    @property
    def replica_work(self) -> int | None:
        """Work of one replica in one iteration, in the unit; None: the training knows it."""
        if self.work is not None:
            return self.work
        return self.batch_size_per_device if counts_batch(self.unit) else None

    @property
    def iteration_work(self) -> int | None:
        """Work of all ranks in one iteration, in the unit; None as for ``replica_work``."""
        return None if self.replica_work is None else self.replica_work * self.replicas

    def parent(self) -> Case | None:
        """Return the case on the part of its layout that its speedup is over; None without one."""
        if self.speedup is None:
            return None
        is_one = self.speedup == ONE_DEVICE
        reference = self.layout.one_device() if is_one else Layout.parse(self.speedup)
        if reference == self.layout or not self.layout.contains(reference):
            return None
        parent = replace(self, layout=reference)
        return None if parent.misfit else parent
