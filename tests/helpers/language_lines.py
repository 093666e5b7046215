"""Lines of programs that train and tune language models, by their format strings."""

from __future__ import annotations

import json

from tests.helpers.log_writer import BATCH


def nanochat(i: int, s: float) -> str:
    return (
        f"step {i:05d}/00150 ({i / 1.5:.2f}%) | loss: 5.123456 | grad norm: 0.5123 | lrm: 1.00 | "
        f"dt: {s * 1000:.2f}ms | tok/sec: {round(BATCH / s):,} | mfu: 48.21 | total time: 0.01m"
    )


def build_nanogpt(i: int, s: float) -> str:
    return (
        f"step {i:5d} | loss: 5.123456 | lr 6.0000e-04 | norm: 0.5123 | dt: {s * 1000:.2f}ms | "
        f"tok/sec: {BATCH / s:.2f}"
    )


def nanogpt(i: int, s: float) -> str:
    head = f"tokens per iteration will be: {BATCH}\n" if i == 0 else ""
    return f"{head}iter {i}: loss 5.4830, time {s * 1000:.2f}ms, mfu 12.34%"


def modded_nanogpt(i: int, s: float) -> str:
    seen = 0.25 + (i + 1) * s
    line = f"step:{i + 1}/150 train_time:{seen * 1000:.0f}ms step_avg:{s * 1000:.2f}ms"
    evaluated = line.replace(" train_time", " val_loss:4.5123 train_time")
    return f"{line}\n{evaluated}" if i % 50 == 49 else line


def llmc(i: int, s: float) -> str:
    return (
        f"step {i + 1:4d}/150 | loss 5.123456 (+1.23z)| norm 0.5123 (-0.12z)| lr 6.00e-04 | "
        f"{s * 1000:.2f} ms | 48.2% bf16 MFU | {BATCH / s:.0f} tok/s"
    )


def llmc_python(i: int, s: float) -> str:
    return (
        f"step {i + 1:4d}/150 | train loss 5.123456 | norm 0.5123 | lr 6.00e-04 | "
        f"({s * 1000:.2f} ms | {BATCH / s:.0f} tok/s)"
    )


def maxtext(i: int, s: float) -> str:
    return (
        f"completed step: {i}, seconds: {s:.3f}, TFLOP/s/device: 212.481, "
        f"Tokens/s/device: {BATCH / s:.3f}, total_weights: 65536, loss: 8.712"
    )


def nemo(i: int, s: float) -> str:
    return (
        f"Training epoch 0, iteration {i}/149 | lr: 3e-05 | consumed_samples: {BATCH * (i + 1)} | "
        f"global_batch_size: {BATCH} | global_step: {i} | reduced_train_loss: 1.233 | "
        f"train_step_timing in s: {s:.4g} | val_loss: 4.106"
    )


def nemo_samples(i: int, s: float) -> str:
    return nemo(i, s).replace(f"global_batch_size: {BATCH} | ", "")


def nemo_bar(i: int, s: float) -> str:
    return (
        f"\rEpoch 0: : 66%|██▌| {i + 1}/150 [10:48<00:00, v_num=, reduced_train_loss=1.0172, "
        f"global_step={i}.0, consumed_samples={BATCH * (i + 1)}.0, train_step_timing in s={s:.3f}]"
    )


def nemo_bar_before(i: int, s: float) -> str:
    return nemo_bar(i, s).replace(f"samples={BATCH * (i + 1)}.0", f"samples={BATCH * i}.0")


def olmo(i: int, s: float) -> str:
    return (
        f"2025-12-07 17:31:48.009\tnode-01:0\tolmo.train:979\tINFO\t[step={i + 1}/150,epoch=0]\n"
        "    optim/total_grad_norm=2.006\n    train/CrossEntropyLoss=7.747\n"
        f"    throughput/total_tokens={BATCH * (i + 1):,}\n"
        f"    throughput/device/tokens_per_second={round(BATCH / s)}\n"
        "    System/Peak GPU Memory (MB)=33,123"
    )


def olmo_core(i: int, s: float) -> str:
    return (
        f"2025-06-07 17:31:48.009\tnode:0\tconsole_logger:150\tINFO\t[step={i + 1}/150,eta=1m]\n"
        f"    train/CE loss=7.747\n    throughput/device/TPS={round(BATCH / s)}\n"
        f"    throughput/device/TPS (actual avg)=1"
    )


def composer(i: int, s: float) -> str:
    return (
        f"[batch={i + 1}/150]:\n\t Train time/batch: {i}\n\t Train loss/train/total: 7.1234\n"
        f"\t Train throughput/batches_per_sec: {1 / s:.4f}\n"
        f"\t Train throughput/samples_per_sec: {1 / s:.4f}\n"
        f"\t Train throughput/tokens_per_sec: {BATCH / s:.4f}\n"
        "\t Train throughput/device/tokens_per_sec: 1.0000\n"
        "\t Train throughput/device/flops_per_sec: 212000000000000.0000\n"
        "\t Train throughput/device/mfu: 0.4812"
    )


def composer_samples(i: int, s: float) -> str:
    return (
        f"[epoch=1][batch={i + 1}/150]:\n\t Train loss/train/total: 7.1234\n"
        f"\t Train throughput/samples_per_sec: {BATCH / s:.4f}"
    )


def composer_time(i: int, s: float) -> str:
    return (
        f"[token={4096 * (i + 1)}/4096000]:\n\t Train time/batch: {i}\n"
        f"\t Train time/token: {4096 * i}\n\t Train loss/train/total: 7.1234\n"
        f"\t Train throughput/samples_per_sec: {1 / s:.4f}\n"
        f"\t Train throughput/tokens_per_sec: {BATCH / s:.4f}"
    )


def composer_time_samples(i: int, s: float) -> str:
    return (
        f"[sample={16 * (i + 1)}/4096]:\n\t Train time/batch: {i}\n"
        f"\t Train throughput/samples_per_sec: {BATCH / s:.4f}"
    )


def litgpt(i: int, s: float) -> str:
    step = " (step)" if i % 2 else ""
    return (
        f"Epoch 1 | iter {i + 1} step {i // 2} | loss train: 1.646, val: n/a | "
        f"iter time: {s * 1000:.2f} ms{step} remaining time: 0:01:02"
    )


def lit_gpt_2023(i: int, s: float) -> str:
    return f"iter {i + 1} step {i // 2}: loss 1.6460, iter time: {s * 1000:.2f}ms (optimizer.step)"


def internevo(i: int, s: float) -> str:
    return (
        "2024-03-27 17:03:42,047 INFO training_internlm.py:599 in "
        f"record_current_batch_training_metrics -- tflops=180.4572 step={i} loss=5.3581 "
        f"tgs (tokens/gpu/second)={BATCH / s:.2f} tgs/last_tgs_1=1.0 tgs/tgs_all=1.0 lr=1e-05 "
        "loss_scale=65536.0 grad_norm={'0_default': 0.019744, '1_fp32': 0.0} micro_num=4"
    )


def internlm(i: int, s: float) -> str:
    return (
        "2023-07-07 12:28:57,802\tINFO train.py:323 in record_current_batch_training_metrics -- "
        f"tflops=63.2701,step={i},loss=11.6344,tgs (tokens/gpu/second)={BATCH / s:.2f},lr=4.0e-07,"
        "loss_scale=65536.0,grad_norm=63.6726,micro_num=4,num_consumed_tokens=131072"
    )


def fairseq(i: int, s: float) -> str:
    return (
        f"2024-04-08 20:56:50 | INFO | train_inner | epoch 001:  {i + 1:5d} / 150 loss=7.646, "
        f"nll_loss=6.351, ppl=81.61, wps={BATCH / s:g}, ups={1 / s:g}, wpb={BATCH}, bsz=233.9, "
        f"num_updates={i + 1}, lr=0.00085, gnorm=0.886, clip=22, train_wall=37, wall=633"
    )


def fairseq_bar(i: int, s: float) -> str:
    return (
        f"\repoch 001:  10%| 1/150 [10:52<00:00,  2.65it/s, loss=7.646, nll_loss=6.351, "
        f"wps={BATCH / s:g}, ups={1 / s:g}, wpb={BATCH}, num_updates={i + 1}, gnorm=0.8]"
    )


def fairseq_json(i: int, s: float) -> str:
    numbers = {"loss": 3.986, "wps": BATCH / s, "ups": 1 / s, "wpb": BATCH, "num_updates": i + 1}
    texts = {name: f"{number:g}" for name, number in numbers.items()}
    return (
        f"[2022-04-08 21:02:45,172][train_inner][INFO] - "
        f"{json.dumps({'epoch': 9, 'update': 8.349, **texts, 'gnorm': '0.886'})}"
    )


def verl(i: int, s: float) -> str:
    return (
        f"(TaskRunner pid=1234) step:{i + 1} - actor/entropy:0.512 - actor/pg_loss:0.000 - "
        f"actor/grad_norm:0.412 - perf/mfu/actor:0.212 - perf/max_memory_allocated_gb:33.2 - "
        f"timing_s/gen:0.1 - timing_s/step:{s:.3f} - perf/total_num_tokens:{BATCH} - "
        f"perf/time_per_step:{s:.3f} - perf/throughput:{BATCH / s:.3f}"
    )


def verl_numpy(i: int, s: float) -> str:
    return (
        f"(TaskRunner pid=1234)\x1b[0m step:{i + 1} - actor/grad_norm:np.float64(0.412) - "
        f"timing_s/step:np.float64({s}) - perf/throughput:np.float64({BATCH / s})"
    )


def deepspeed_chat(i: int, s: float) -> str:
    return (
        f"epoch: 0|step: {i}|ppo_ep: 1|act_loss: 0.2966|cri_loss: 0.1690|unsuper_loss: 0.0\n"
        f"average reward score: -0.0648\n{'-' * 60}\n"
        f"|E2E latency={s:.2f}s |Gather latency=0.00s (0.00%) |Generate time=0.2s (71.38%) "
        f"|Training time=0.1s (20.99%) |Others=0.1 (7.63%)|CurSamplesPerSec={BATCH / s:.2f} "
        f"|AvgSamplesPerSec={BATCH / s:.2f}"
    )


def deepspeed_chat_2024(i: int, s: float) -> str:
    return (
        f"Epoch: 0 | Step: {i} | PPO Epoch: 1 | Actor Loss: 0.2 | Critic Loss: 0.1\n"
        f"End-to-End => Latency: 0s, TFLOPs: 1.0\n|E2E latency={s:.2f}s "
        f"|CurSamplesPerSec={BATCH / s:.2f} |AvgSamplesPerSec={BATCH / s:.2f}"
    )


def swift(i: int, s: float) -> str:
    return (
        "{'loss': 1.72185874, 'grad_norm': 1.59615517, 'learning_rate': 2e-05, 'epoch': 0.05, "
        f"'global_step/max_steps': '{i + 1}/150', 'percentage': '5.32%', 'elapsed_time': '32s', "
        f"'remaining_time': '9m 36s', 'memory(GiB)': 17.47, 'train_speed(iter/s)': {1 / s:.6f}}}"
    )


def swift_json(i: int, s: float) -> str:
    line = swift(i, s).replace("'", '"')
    return line.replace(f'(iter/s)": {1 / s:.6f}', f'(s/it)": {s:.6f}')


def llamafactory(i: int, s: float) -> str:
    seconds = round((i + 1) * s)
    clock = f"{seconds // 3600}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"
    steps = {"current_steps": i + 1, "total_steps": 150, "loss": 1.77, "lr": 7.5e-05}
    return json.dumps({**steps, "epoch": 0.2, "elapsed_time": clock, "remaining_time": "0:00:00"})
