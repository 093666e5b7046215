"""Trainings that a case calls fp32, and that allow shorter arithmetic."""

from __future__ import annotations

import torch
import workloads


def build(job):
    """Train; option ``says`` is what the workload sets before."""
    said = job.options["says"]
    if said == "high":
        torch.set_float32_matmul_precision("high")
    elif said == "short-products":
        # As a CPU does that multiplies float32 in bfloat16.
        product = torch.Tensor.__matmul__

        def short(left, right):
            if left.dtype != torch.float32:
                return product(left, right)
            return product(left.bfloat16().float(), right.bfloat16().float())

        torch.Tensor.__matmul__ = short
    return workloads.build(job)
