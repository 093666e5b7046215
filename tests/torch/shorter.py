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
    step = workloads.build(job)
    if said == "high-in-step":

        def high_in_step():
            torch.set_float32_matmul_precision("high")
            loss = step()
            torch.set_float32_matmul_precision("highest")
            return loss

        return high_in_step
    if said == "cudnn-flags-in-step":
        image = torch.rand(1, 1, 8, 8)

        def convolves():
            # Its default for allow_tf32 is True
            with torch.backends.cudnn.flags(enabled=True):
                torch.nn.functional.conv2d(image, image[:, :, :3, :3])
            return step()

        return convolves
    return step
