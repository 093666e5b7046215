"""What a log itself says of the run, against what was declared of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.synonyms import same_precision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_dlperf.measure.logs.extract import Question
    from pytest_dlperf.measure.logs.facts import Facts

#: Codes of a log that is of another training than was declared, or than its path says.
MISMATCHES: Final = frozenset({"world-size-mismatch", "batch-size-mismatch", "precision-mismatch"})


def of_question(said: Facts, batch: float | None, question: Question) -> Iterator[Problem]:
    """Compare what a log says with the case, or the options, that declare its run.

    ``batch`` is the batch size per device that its words say, where its lines do not tell it.
    """
    world, node, asked = said.all_devices, said.node_devices, question.world_size
    if asked is not None and world is not None and world != asked:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {world} devices, {asked} were declared; {asked} was taken",
        )
    elif asked is not None and world is None and node is not None and asked % node:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {node} devices a node, {asked} in all were declared; {asked} "
            "was taken",
        )
    wanted = question.batch_size_per_device
    if wanted is not None and batch is not None and batch != wanted:
        yield Problem(
            code="batch-size-mismatch",
            message=f"the log says a batch of {batch:g} a device, {wanted} was declared; {wanted} "
            "was taken",
        )
    precision = question.precision
    if precision and said.precision and not same_precision(said.precision, precision):
        yield Problem(
            code="precision-mismatch",
            message=f"the log says {said.precision}, {precision} was declared",
        )
