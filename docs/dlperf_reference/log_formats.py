"""The formats of logs that are known: whose they are, and a line of each."""

from __future__ import annotations

from typing import Final

from dlperf_reference.markdown import code, table
from pytest_dlperf.measure.logs import registry

#: The program, where its print statement or the project is, and a line of it, shortened: ``…`` is
#: what is left out, ``⇥`` a tab, ``⏎`` the next line.
FORMATS: Final = {
    "dlperf": (
        "our own records",
        "",
        '{"rank": 0, "record": "span", "first_step": 9, "last_step": 9, '
        '"seconds": 0.5, "work": 16, "data_wait_seconds": null}',
    ),
    "paddleclas": (
        "PaddleClas, dynamic",
        "https://github.com/PaddlePaddle/PaddleClas",
        "ppcls INFO: epoch:0   train step:9    … ips: 32.00000 samples/sec.",
    ),
    "paddleclas2020": (
        "PaddleClas, 2020",
        "https://github.com/PaddlePaddle/PaddleClas",
        "INFO: epoch:0   train step:9    … ips: 32.00000 images/sec.",
    ),
    "paddleclas2021": (
        "PaddleClas, static, 2021",
        "https://github.com/PaddlePaddle/PaddleClas",
        "INFO: epoch:0  , train step:9   , … ips: 32.00000 images/sec.",
    ),
    "paddleseg": (
        "PaddleSeg",
        "https://github.com/PaddlePaddle/PaddleSeg",
        "[TRAIN] epoch: 1, iter: 10/150, … ips: 32.0000 samples/sec",
    ),
    "paddlevideo": (
        "PaddleVideo",
        "https://github.com/PaddlePaddle/PaddleVideo",
        "epoch:[  1/1  ] train step:9    … ips: 32.00000 instance/sec.",
    ),
    "paddlenlp-bert": (
        "PaddleNLP, static BERT",
        "https://github.com/PaddlePaddle/PaddleNLP",
        "tobal step: 10, … ips: 32.00000 sequences/sec",
    ),
    "paddlenlp-transformer": (
        "PaddleNLP, Transformer",
        "https://github.com/PaddlePaddle/PaddleNLP",
        "step_idx: 9, … ips: 32.00000 words/sec",
    ),
    "paddlenlp-trainer": (
        "PaddleNLP, Trainer",
        "https://github.com/PaddlePaddle/PaddleNLP",
        "global_step: 10, interval_runtime: 0.5000, … interval_steps_per_second: 2.000,",
    ),
    "plsc": (
        "PLSC, static",
        "https://github.com/PaddlePaddle/PLSC",
        "Pass:0 batch:9 lr:0.1 loss:38.2 qps:32.00",
    ),
    "plsc2021": (
        "PLSC, insightface, 2021",
        "https://github.com/deepinsight/insightface",
        "Training: … epoch: 0, step: 10, eta: 3.21 hours, throughput: 32.0000 imgs/sec",
    ),
    "plsc2022": (
        "PLSC, 2022",
        "https://github.com/PaddlePaddle/PLSC",
        "plsc INFO: [Train][Epoch 1/1][Iter: 9/150]lr: … ips: 32.00000 images/sec",
    ),
    "ngc-pytorch": (
        "NGC ResNet-50, PyTorch (also `DLLL {…}`)",
        "https://github.com/NVIDIA/DeepLearningExamples",
        "DLL … Epoch: 0 Iteration: 10  … train.total_ips : 32.00 images/s",
    ),
    "ngc-mxnet": (
        "NGC ResNet-50, MXNet",
        "https://github.com/NVIDIA/DeepLearningExamples",
        "DLL … Epoch: 0 Iteration: 9  … train.ips : 32.0",
    ),
    "ngc-tensorflow": (
        "NGC ResNet-50, TensorFlow",
        "https://github.com/NVIDIA/DeepLearningExamples",
        "DLL … - (0, 9) total_ips : 32.0",
    ),
    "ngc-nvlog": (
        "the same, 2021",
        "https://github.com/NVIDIA/DeepLearningExamples",
        ":::NVLOGv0.2.3 … iteration: 9 ⏎ :::NVLOGv0.2.3 … total_ips: 32.0",
    ),
    "ngc-tensorflow-bert": (
        "NGC BERT, TensorFlow",
        "https://github.com/NVIDIA/DeepLearningExamples",
        "DLL … Iteration: 1  throughput_train : 32.000 sequences/s",
    ),
    "ngc-pytorch-bert": (
        "NGC BERT, PyTorch: one rate",
        "https://github.com/NVIDIA/DeepLearningExamples",
        "DLL … training_sequences_per_second : 1234.5",
    ),
    "ngc-transformer": (
        "NGC Transformer",
        "https://github.com/NVIDIA/DeepLearningExamples",
        "Transformer | epoch 0 | step 10 |avg … |tokens/s 32.000",
    ),
    "ngc-gnn": (
        "R-GAT in MLPerf",
        "https://github.com/mlcommons/training_results_v5.1",
        "DLL … Iteration 1 | … | iteration_time : 500.00 ms",
    ),
    "mmseg": (
        "OpenMMLab",
        "https://github.com/open-mmlab/mmengine/blob/main/mmengine/runner/log_processor.py",
        "mmseg - INFO - Iter [10/150]⇥lr: … time: 0.500,",
    ),
    "mmcv-json": (
        "OpenMMLab's JSON",
        "https://github.com/open-mmlab/mmcv/blob/1.x/mmcv/runner/hooks/logger/text.py",
        '{"mode": "train", "epoch": 1, "iter": 10, "lr": 0.0093, "loss": 0.5, "time": 0.50000}',
    ),
    "tf2-timehistory": (
        "TensorFlow's models",
        "https://github.com/tensorflow/models/blob/master/official/utils/misc/keras_utils.py",
        "TimeHistory: 0.50 seconds, 32.00 examples/second between steps 9 and 10",
    ),
    "tf-cnn-benchmarks": (
        "TensorFlow's benchmarks",
        "https://github.com/tensorflow/benchmarks",
        "10⇥images/sec: 32.0 +/- 0.1 (jitter = 0.3)⇥8.137",
    ),
    "tsm": (
        "TSM",
        "https://github.com/mit-han-lab/temporal-shift-module/blob/master/main.py",
        "Epoch: [0][9/150], lr: 0.02000⇥Time 0.001 (0.500)⇥Data …",
    ),
    "imagenet": (
        "PyTorch's ImageNet example",
        "https://github.com/pytorch/examples/blob/main/imagenet/main.py",
        "Epoch: [0][   9/150]⇥Time  0.001 ( 0.500)⇥Data …",
    ),
    "torchvision": (
        "torchvision, DETR, DeiT, MAE",
        "https://github.com/pytorch/vision/blob/main/references/classification/utils.py",
        "Epoch: [0]  [   9/150]  eta: … time: 0.5000",
    ),
    "timm": (
        "timm",
        "https://github.com/huggingface/pytorch-image-models/blob/main/train.py",
        "Train: 0 [  50/1251 (  4%)]  … 2560.00/s  (0.400s, 2560.00/s)",
    ),
    "torchtitan": (
        "torchtitan",
        "https://github.com/pytorch/torchtitan/blob/main/torchtitan/components/metrics.py",
        "step: 10  … tps: 32  tflops: …",
    ),
    "verl": (
        "verl",
        "https://github.com/volcengine/verl/blob/main/verl/trainer/ppo/metric_utils.py",
        "step:10 - … - perf/time_per_step:0.500 - perf/throughput:32.000",
    ),
    "deepspeed-chat": (
        "DeepSpeed-Chat, step 3",
        "https://github.com/deepspeedai/DeepSpeedExamples/blob/master/applications/DeepSpeed-Chat/dschat/utils/perf.py",
        "epoch: 0|step: 9|ppo_ep: … ⏎ |E2E latency=0.50s … "
        "|CurSamplesPerSec=32.00 |AvgSamplesPerSec=32.00",
    ),
    "ms-swift": (
        "ms-swift",
        "https://github.com/modelscope/ms-swift",
        "{'loss': … 'global_step/max_steps': '10/150', … 'train_speed(iter/s)': 2.000000}",
    ),
    "llamafactory": (
        "LLaMA-Factory's `trainer_log.jsonl`",
        "https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/train/callbacks.py",
        '{"current_steps": 10, "total_steps": 150, "loss": 1.77, '
        '"elapsed_time": "0:00:05", "remaining_time": "0:00:00"}',
    ),
    "nanochat": (
        "nanochat, build-nanogpt",
        "https://github.com/karpathy/nanochat/blob/master/scripts/base_train.py",
        "step 00009/00150 … | tok/sec: 32",
    ),
    "nanogpt": (
        "nanoGPT",
        "https://github.com/karpathy/nanoGPT/blob/master/train.py",
        "iter 9: loss 5.4830, time 500.00ms,",
    ),
    "modded-nanogpt": (
        "modded-nanogpt",
        "https://github.com/KellerJordan/modded-nanogpt/blob/master/train_gpt.py",
        "step:10/150 train_time:5250ms step_avg:500.00ms",
    ),
    "llm.c": (
        "llm.c",
        "https://github.com/karpathy/llm.c/blob/master/train_gpt2.cu",
        "step   10/150 | … | 32 tok/s",
    ),
    "maxtext": (
        "MaxText",
        "https://github.com/AI-Hypercomputer/maxtext",
        "completed step: 9, seconds: 0.500, … Tokens/s/device: 32.000,",
    ),
    "nemo": (
        "NeMo 2",
        "https://github.com/NVIDIA-NeMo/NeMo",
        "Training epoch 0, … global_batch_size: 16 | global_step: 9 | … "
        "train_step_timing in s: 0.5",
    ),
    "olmo": (
        "OLMo, OLMo-core",
        "https://github.com/allenai/OLMo/blob/main/olmo/train.py",
        "[step=10/150,epoch=0] ⏎     throughput/device/tokens_per_second=32",
    ),
    "composer": (
        "Composer, llm-foundry",
        "https://github.com/mosaicml/composer/blob/main/composer/loggers/console_logger.py",
        "[batch=10/150]: ⏎ ⇥ Train throughput/tokens_per_sec: 32.0000",
    ),
    "composer-samples": (
        "the same without tokens",
        "https://github.com/mosaicml/composer/blob/main/composer/callbacks/speed_monitor.py",
        "[epoch=1][batch=10/150]: ⏎ ⇥ Train throughput/samples_per_sec: 32.0000",
    ),
    "composer-time": (
        "the same where a run is so many tokens long",
        "https://github.com/mosaicml/composer/blob/main/composer/loggers/console_logger.py",
        "[token=8388608/25769803776]: ⏎ ⇥ Train time/batch: 10 ⏎ ⇥ "
        "Train throughput/tokens_per_sec: 32.0000",
    ),
    "composer-time-samples": (
        "the same without tokens",
        "https://github.com/mosaicml/composer/blob/main/composer/callbacks/speed_monitor.py",
        "[sample=2048/4096]: ⏎ ⇥ Train time/batch: 10 ⏎ ⇥ "
        "Train throughput/samples_per_sec: 32.0000",
    ),
    "litgpt": (
        "LitGPT",
        "https://github.com/Lightning-AI/litgpt/blob/main/litgpt/pretrain.py",
        "Epoch 1 | iter 10 step 4 | … iter time: 500.00 ms (step)",
    ),
    "internevo": (
        "InternEvo, InternLM",
        "https://github.com/InternLM/InternEvo",
        "step=9 loss=5.3581 tgs (tokens/gpu/second)=32.00",
    ),
    "fairseq": (
        "fairseq from 0.10: text, bar, JSON",
        "https://github.com/facebookresearch/fairseq/blob/main/fairseq/logging/progress_bar.py",
        "| INFO | train_inner | … wps=32, … num_updates=10,",
    ),
    "megatron": (
        "Megatron-LM and its forks",
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/training.py",
        "iteration       10/     150 | … elapsed time per iteration (ms): "
        "500.0 | … global batch size:    16 |",
    ),
    "deepspeed": (
        "DeepSpeed",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/utils/timer.py",
        "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=32.0, "
        "CurrSamplesPerSec=32.0,",
    ),
    "deepspeed2021": (
        "DeepSpeed before 0.7",
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.5.0/deepspeed/utils/timer.py",
        "[timer.py:154:stop] 0/10, SamplesPerSec=32.0",
    ),
    "huggingface": (
        "Hugging Face's Trainer, Diffusers",
        "https://github.com/huggingface/transformers/blob/main/src/transformers/trainer_callback.py",
        " 10%|#    | 10/150 [00:05<08:03,  1.97it/s] ⏎ {'loss': '2.075', …",
    ),
    "lightning": (
        "Lightning",
        "https://github.com/Lightning-AI/pytorch-lightning/blob/master/src/lightning/pytorch/callbacks/progress/tqdm_progress.py",
        "Epoch 0:  10%|#   | 10/500 [00:05<03:45, 2.00it/s, v_num=0]",
    ),
    "tqdm": (
        "bars named as training",
        "https://github.com/tqdm/tqdm",
        "Epoch 1/400 train:  39%|###9      | 10/150 [00:05<00:12, 127.70it/s]",
    ),
    "tqdm-samples": (
        "such bars of samples",
        "https://github.com/tqdm/tqdm",
        "train:   0%|          | 64/12800 [00:02<03:19, 32.00img/s]",
    ),
    "tqdm-tokens": (
        "such bars of tokens",
        "https://github.com/tqdm/tqdm",
        "train:   0%|          | 64/12800 [00:02<03:19, 32.00tok/s]",
    ),
    "mlperf": (
        "MLPerf's events, to v5.1",
        "https://github.com/mlcommons/logging/blob/master/mlperf_logging/mllog/mllog.py",
        ':::MLLOG {"namespace": "", "time_ms": 1, "event_type": '
        '"POINT_IN_TIME", "key": "tracked_stats", "value": {"throughput": '
        '32.0}, "metadata": {"step": 10}}',
    ),
    "detectron2": (
        "detectron2",
        "https://github.com/facebookresearch/detectron2/blob/main/detectron2/utils/events.py",
        "d2.utils.events]:  eta: 0:02:30  iter: 9  … time: 0.5000  last_time: 0.5000",
    ),
    "detectron2-2019": (
        "detectron2 before `last_time`",
        "https://github.com/facebookresearch/detectron2/blob/v0.6/detectron2/utils/events.py",
        "d2.utils.events]:  eta: 0:02:30  iter: 9  … time: 0.5000",
    ),
    "ultralytics": (
        "Ultralytics, YOLOv5",
        "https://github.com/ultralytics/ultralytics/blob/main/ultralytics/engine/trainer.py",
        "        1/1      2.51G      … 640:  45%|████▌     | 10/150 [00:05<00:15,  5.5it/s]",
    ),
    "keras": (
        "Keras, milliseconds",
        "https://github.com/keras-team/keras/blob/master/keras/src/utils/progbar.py",
        "Epoch 1/1 ⏎ 10/150 ━━╸━━━━ 10s 500ms/step - … loss: 2.3012",
    ),
    "keras-seconds": (
        "Keras, whole seconds",
        "https://github.com/keras-team/keras/blob/master/keras/src/utils/progbar.py",
        "Epoch 1/1 ⏎ 10/150 ━━╸━━━━ 4:40 2s/step - … loss: 2.3012",
    ),
    "tf-slim": (
        "TensorFlow's slim",
        "https://github.com/google-research/tf-slim/blob/master/tf_slim/learning.py",
        "INFO:tensorflow:global step 10: loss = 6.5264 (0.500 sec/step)",
    ),
    "ijepa": (
        "I-JEPA",
        "https://github.com/facebookresearch/ijepa/blob/main/src/train.py",
        "[1,    10] loss: 0.123 … [mem: 5.05e+04] (500.0 ms)",
    ),
    "vjepa": (
        "V-JEPA",
        "https://github.com/facebookresearch/jepa/blob/main/app/vjepa/train.py",
        "[1,    10] loss: 0.123 … [mem: 5.05e+04] [gpu: 450.0 ms][wall: 500.0 ms]",
    ),
    "deep-text-recognition": (
        "deep-text-recognition-benchmark",
        "https://github.com/clovaai/deep-text-recognition-benchmark/blob/master/train.py",
        "[10/150] Train loss: … Elapsed_time: 8.00000",
    ),
    "dinov2": (
        "DINOv2, also `training_metrics.json`",
        "https://github.com/facebookresearch/dinov2/blob/main/dinov2/logging/helpers.py",
        "Training  [    10/125000]  eta: … time: 0.500000  data: 0.000300",
    ),
    "open-clip": (
        "OpenCLIP",
        "https://github.com/mlfoundations/open_clip/blob/main/src/open_clip_train/train.py",
        "Train Epoch: 0 [ 320/4800 (7%)] … Batch (t): 0.500, 32.0000/s, 4.00000/s/gpu LR: …",
    ),
    "informer": (
        "Informer, Autoformer, TimesNet",
        "https://github.com/thuml/Time-Series-Library/blob/main/exp/exp_long_term_forecasting.py",
        "⇥iters: 10, epoch: 1 … ⏎ ⇥speed: 0.5000s/iter; …",
    ),
    "icefall": (
        "icefall, by its clock",
        "https://github.com/k2-fsa/icefall/blob/master/egs/librispeech/ASR/zipformer/train.py",
        "2023-07-27 12:50:53,681 … Epoch 0, batch 10, loss[loss=0.4561, …",
    ),
}
_AVERAGING: Final = {
    "iteration": "of one iteration",
    "window": "since the last print",
    "running": "a running mean",
    "whole": "of the whole run",
}


def text() -> str:
    """Return the table of the formats; raise ``KeyError`` for one without a line."""
    return table(("format", "program", "a rate is", "a line"), map(_row, registry.formats()))


def _row(name: str) -> tuple[str, ...]:
    program, source, line = FORMATS[name]
    declared = registry.named(name)
    scope = "all devices" if declared.scope == "global" else f"a {declared.scope}"
    return (
        code(name),
        f"[{program}]({source})" if source else program,
        f"{declared.unit} of {scope}, {_AVERAGING[declared.averaging]}",
        code(line),
    )
