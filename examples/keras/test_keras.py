"""A model of Keras 3 as a workload in two frameworks, and a program with its ``fit``."""

from __future__ import annotations

import pytest


@pytest.mark.dlperf("net:on_jax", framework="jax", layout="1n2c", batch_size_per_device=8)
def test_keras_on_jax(dlperf):
    dlperf.run()


@pytest.mark.dlperf("net:on_torch", framework="torch", layout="1n2c", batch_size_per_device=8)
def test_keras_on_torch(dlperf):
    dlperf.run()


@pytest.mark.dlperf(
    command=["python", "fit.py", "{iterations}"],
    framework="jax",
    layout="1n1c",
    batch_size_per_device=8,
)
def test_keras_fit(dlperf):
    dlperf.run()
