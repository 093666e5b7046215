"""What a user's own program asks to have checked, as the worker checks a workload's training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pytest_dlperf.core.wire_model import ChecksumRecord
from pytest_dlperf.worker.failure import check_precision

_REMEDY = "Compute in it, or name the precision that this program has"


class _Unseen:
    """The loss scaler of a program, which is not looked for."""

    @staticmethod
    def is_enabled() -> bool:
        return True


class MarkedChecks:
    """The checks of one rank of a PyTorch program; raises ``TypeError`` in another framework."""

    def __init__(self, framework: str, parameters: Iterable[Any], *, fixed_batch: bool) -> None:
        if framework != "torch":
            raise TypeError(
                f"pytest_dlperf.mark.checked is PyTorch's, and the case is of {framework}; leave "
                "it out, or make a workload of this training"
            )
        self._parameters = list(parameters)
        self.fixed_batch = fixed_batch
        self._counting: Any = None
        self._restore: Callable[[], None] = lambda: None
        #: Why the precision was not looked at; empty once it was.
        self.unwatched = "the second step, which is looked at, is not within the warm-up"

    def watch(self) -> None:
        """Begin to count the operations of a step, unless it is compiled."""
        from pytest_dlperf.worker.frameworks.torch import flops, watch

        if watch.compiles():
            self.unwatched = "its step is compiled, and operations are not seen there"
            return
        counting = self._counting = flops.FlopsByDtype()
        self._restore = watch.note_replays(lambda _: counting.uncounted.note(watch.REPLAY, ()))
        counting.__enter__()

    def leave(self) -> Any:
        """Count no more; return what was counted, None where nothing was looked at."""
        counted, self._counting = self._counting, None
        if counted is not None:
            counted.__exit__(None, None, None)
            self._restore()
        return counted

    def watched(self, precision: str) -> None:
        """End it; raise ``WorkerFailure`` where most was in another dtype than ``precision``'s."""
        from pytest_dlperf.worker.frameworks.torch import watch

        if (counted := self.leave()) is not None:
            if watch.compiles():
                self.unwatched = "its second step was the first to compile"
                return
            unseen = counted.uncounted
            if unseen:
                self.unwatched = f"its second step ran {unseen.words()}, which nobody can count"
            else:
                self.unwatched = "" if counted.flops else "its second step had no matrix work"
            check_precision(counted.flops, precision, _Unseen(), _REMEDY, uncounted=unseen)

    def record(self) -> ChecksumRecord:
        """Return a digest of the parameters as they are now, and what was not looked at."""
        from pytest_dlperf.worker.frameworks.torch import watch

        checksum = ChecksumRecord(value=watch.checksum(self._parameters))
        if self.unwatched:
            checksum["unwatched"] = self.unwatched
        return checksum
