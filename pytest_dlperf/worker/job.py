"""What a workload is given: its place in the job, and the framework's own wrappers."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager


@dataclass(kw_only=True)
class Job(abc.ABC):
    """One rank of a training; ``build(job)`` returns the function that does one iteration.

    The methods below are what a framework provides; a workload may use them or do it all by
    hand, except that ranks which hold the same parameters must be declared: by
    ``data_parallel``, or by ``replicated``.
    """

    rank: int
    local_rank: int
    world_size: int
    device: Any
    precision: str
    batch_size_per_device: int
    size: str
    seed: int
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    #: The dtype of parameters: float16 for ``pure_fp16``, else float32.
    dtype: Any = None
    #: The loss scaler where the precision needs one (``amp``), else None.
    scaler: Any = None

    @abc.abstractmethod
    def generator(self) -> Any:
        """Return a random generator on the device, seeded for this rank: data differ by rank."""

    @abc.abstractmethod
    def data_parallel(self, module: Any, **options: Any) -> Any:
        """Return ``module`` on the device, wrapped for data parallelism if there are ranks.

        Its parameters count as replicated: they must be equal on all ranks at the end.
        """

    @abc.abstractmethod
    def replicated(self, parameters: Iterable[Any]) -> None:
        """Declare parameters that must be equal on all ranks at the end; may be empty."""

    @abc.abstractmethod
    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of the precision's mixed arithmetic; does nothing for fp32."""

    @abc.abstractmethod
    def backward(
        self,
        loss: Any,
        optimizer: Any,
        *,
        clip_norm: float | None = None,
        parameters: Iterable[Any] | None = None,
    ) -> None:
        """Clear gradients, go backward, clip if asked, and step the optimizer.

        With loss scaling where the precision needs it. ``clip_norm`` needs ``parameters``.
        """
