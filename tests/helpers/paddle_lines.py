"""Lines of Paddle's programs, by their format strings."""

from __future__ import annotations

from tests.helpers.log_writer import BATCH


def paddleclas(i: int, s: float) -> str:
    return (
        f"[2023/07/28 07:55:56] ppcls INFO: epoch:0   train step:{i:<4d} lr: 0.100000, "
        f"loss:  5.08 batch_cost: {s:.5f} s, reader_cost: {s / 100:.5f} s, "
        f"ips: {BATCH / s:.5f} samples/sec."
    )


def paddleclas_dynamic(i: int, s: float) -> str:
    return (
        f"[2022/08/05 01:28:59] ppcls INFO: [Train][Epoch 1/1][Iter: {i}/150]"
        f"lr(LinearWarmup): 0.32, top1: 0.22, CELoss: 4.46, loss: 4.46, batch_cost: {s:.5f}s, "
        f"reader_cost: {s / 100:.5f}, ips: {BATCH / s:.5f} samples/s, eta: 11 days, 22:45:05"
    )


def paddleclas2021(i: int, s: float) -> str:
    return (
        f"2021-01-31 20:30:07 INFO: epoch:0  , train step:{i:<4d}, top1: 0.75, loss: 0.97458, "
        f"lr: 0.1, batch_cost: {s:.5f} s, reader_cost: 0.00010 s, "
        f"ips: {BATCH / s:.5f} images/sec."
    )


def paddleclas2020(i: int, s: float) -> str:
    return (
        f"2020-12-16 19:07:16 INFO: epoch:0   train step:{i:<4d} loss:  6.9 lr: 0.1 "
        f"elapse: {s:.3f}s ips: {BATCH / s:.5f} images/sec."
    )


def paddleseg(i: int, s: float) -> str:
    return (
        f"2022-02-05 04:33:42 [INFO]\t[TRAIN] epoch: 1, iter: {i + 1}/150, loss: 0.6, lr: 0.004, "
        f"batch_cost: {s:.4f}, reader_cost: 0.00232, ips: {BATCH / s:.4f} samples/sec | ETA 00:00"
    )


def paddleseg_2020(i: int, s: float) -> str:
    return (
        f"2021-01-19 07:02:41 [INFO]\t[TRAIN] epoch=1, iter={i + 1}/150, loss=2.87, lr=0.009639, "
        f"batch_cost={s:.4f}, reader_cost=0.0001 | ETA 00:01:24"
    )


def paddlevideo(i: int, s: float) -> str:
    return (
        f"[04/12 10:00:00] epoch:[  1/1  ] \x1b[95mtrain step:{i:<4d}\x1b[0m loss: 5.9 lr: 0.02 "
        f"\x1b[92mbatch_cost: {s:.5f} sec,\x1b[0m reader_cost: 0.00100 sec, "
        f"ips: {BATCH / s:.5f} instance/sec."
    )


def paddlevideo_2020(i: int, s: float) -> str:
    return (
        f"[12/04 10:00:00] epoch:[  1/1  ] train step:{i:<4d} loss: 5.9 lr: 0.02 elapse: {s:.3f} "
        f"reader: 0.001 top1: 0.1s ips: {BATCH / s:.5f} instance/sec."
    )


def paddlenlp_bert(i: int, s: float) -> str:
    word = ("total step:", "tobal step:")[i % 2]
    return (
        f"{word} {i + 1}, epoch: 0, batch: {i}, loss: 10.5, avg_reader_cost: 0.00009 sec, "
        f"avg_batch_cost: {s:.5f} sec, avg_samples: 16.00000, ips: {BATCH / s:.5f} sequences/sec"
    )


def paddlenlp_bert_2020(i: int, s: float) -> str:
    return (
        f"global step {i + 1}, epoch: 0, batch: {i}, loss: 9.7, speed: {1 / s:.2f} step/s, "
        f"ips :{BATCH / s:.2f} sequences/s"
    )


def paddlenlp_transformer(i: int, s: float) -> str:
    return (
        f"2021-05-08 17:47:56,926-INFO: step_idx: {i}, epoch: 0, batch: {i}, avg loss: 7.1, "
        f"avg_speed: {1 / s:.2f} step/s, batch_cost: {s:.5f} sec, reader_cost: 0.00008 sec, "
        f"tokens: 16, ips: {BATCH / s:.5f} words/sec"
    )


def paddlenlp_trainer(i: int, s: float) -> str:
    return (
        f"[2022-08-31 16:19:16,008] [    INFO] - loss: 3.258, learning_rate: 2.99e-05, "
        f"global_step: {i + 1}, interval_runtime: {s:.4f}, "
        f"interval_samples_per_second: {BATCH / s:.4f}, "
        f"interval_steps_per_second: {1 / s:.3f}, epoch: 0.0265"
    )


def plsc(i: int, s: float) -> str:
    return f"INFO 2021-03-12 entry.py:980] Pass:0 batch:{i} lr:0.1 loss:38.2 qps:{BATCH / s:.2f}"


def plsc2021(i: int, s: float) -> str:
    return (
        f"Training: 2021-10-12 10:00:00,123 - loss 12.5, lr: 0.1, epoch: 0, step: {i + 1}, "
        f"eta: 3.21 hours, throughput: {BATCH / s:.4f} imgs/sec"
    )


def insightface(i: int, s: float) -> str:
    return (
        f"Training: 2022-05-05 03:04:06,521-Speed {BATCH / s:.4f} samples/sec   Loss 43.3935   "
        f"LearningRate 0.1000   Epoch: 0   Global Step: {i + 1}   Required: 2244 hours"
    )


def plsc2022(i: int, s: float) -> str:
    return (
        f"[2022/10/12 10:00:00] plsc INFO: [Train][Epoch 1/1][Iter: {i}/150]lr: 0.1, "
        f"loss: 12.5, batch_cost: {s:.5f}s, reader_cost: 0.00010, "
        f"ips: {BATCH / s:.5f} images/sec, eta: 3:21:00"
    )
