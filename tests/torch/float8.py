"""A training whose products are in float8, by PyTorch's own operator, which CPUs have too."""

from __future__ import annotations

import torch

_FORWARD, _GRADIENT = torch.float8_e4m3fn, torch.float8_e5m2


def _scaled(x, dtype):
    """Return ``x`` in ``dtype``, and the scale that gives it back."""
    scale = x.abs().max().float().clamp(min=1e-12) / torch.finfo(dtype).max
    return (x / scale).to(dtype), scale


def _product(left, right):
    """Return the product of two tensors with their scales; the right one is by columns."""
    (a, a_scale), (b, b_scale) = left, right
    columns = b.t().contiguous().t()
    return torch._scaled_mm(a, columns, a_scale, b_scale, out_dtype=torch.bfloat16)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        left, (w, scale) = _scaled(x, _FORWARD), _scaled(weight, _FORWARD)
        return _product(left, (w.t(), scale))

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        gradient = gradient.contiguous()
        g, scale = _scaled(gradient, _GRADIENT)
        of_x = _product((g, scale), _scaled(weight, _FORWARD))
        of_weight = _product((g.t().contiguous(), scale), _scaled(x, _FORWARD))
        return of_x.to(x.dtype), of_weight.to(weight.dtype)


class Float8Linear(torch.nn.Linear):
    def forward(self, x):
        return _Product.apply(x, self.weight) + self.bias


def build(job):
    """Train a small net; option ``float8`` says whether its layers multiply in float8."""
    kind = Float8Linear if job.options["float8"] else torch.nn.Linear
    model = job.data_parallel(torch.nn.Sequential(kind(32, 64), torch.nn.ReLU(), kind(64, 16)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.arange(job.batch_size_per_device) % 16

    def step():
        with job.autocast():
            logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits.float(), y)
        job.backward(loss, optimizer)
        return loss

    return step
