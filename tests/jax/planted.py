"""A suite's own training in JAX, with the faults of ``tests/helpers/planted_faults.py``."""

from __future__ import annotations

import jax
from jax import lax
from jax.sharding import PartitionSpec

from perf_tests.llama import jax_train as llama_train
from perf_tests.resnet50 import jax_train as resnet50_train
from tests.helpers.fault_in_environment import planted


def resnet50(job):
    fault = planted(job.world_size)
    if fault == "learning-rate-0":
        resnet50_train.learning_rate = lambda *_: 0.0
    if fault == "shuffled-labels":
        loss = resnet50_train.cross_entropy

        def shuffled(logits, labels, classes):
            return loss(logits, another_order(labels, logits[0, 0]), classes)

        resnet50_train.cross_entropy = shuffled
    if fault == "not-averaged":
        lax.pmean = lambda tree, _axis: tree
    return resnet50_train.build(in_its_dtype(job, fault))


def llama(job):
    fault = planted(job.world_size)
    if fault == "learning-rate-0":
        update = llama_train.adamw
        llama_train.adamw = lambda state, gradients, _rate: update(state, gradients, 0.0)
    if fault == "shuffled-labels":
        loss = llama_train.loss_of

        def shuffled(size, parameters, tokens, after, dtype, **named):
            mixed = another_order(after.reshape(-1), parameters["head"][0, 0])
            return loss(size, parameters, tokens, mixed.reshape(after.shape), dtype, **named)

        llama_train.loss_of = shuffled
    if fault == "not-averaged":
        step_of = job.step_of

        def alone(train, state, *batch, parameters):
            return step_of(each_by_itself(train, job), state, *batch, parameters=parameters)

        job.step_of = alone
    return llama_train.build(in_its_dtype(job, fault))


def in_its_dtype(job, fault):
    """Return the job, which computes in bfloat16 where that is the fault."""
    if fault == "wrong-dtype":
        job.precision = "bf16"
    return job


def another_order(labels, number):
    """Return the labels in an order that depends on a number: each step has another one."""
    key = jax.random.key(lax.bitcast_convert_type(number, "uint32"))
    return jax.random.permutation(key, labels)


def each_by_itself(train, job):
    """Return the update of a model that each device trains on its own part of the batch."""
    whole, part = PartitionSpec(), PartitionSpec("dp")
    return jax.jit(
        jax.shard_map(
            train.__wrapped__, mesh=job.mesh, in_specs=(whole, part, part), out_specs=whole,
            check_vma=False,
        )
    )  # fmt: skip
