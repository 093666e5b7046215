"""What is said of a log that is not read, and whether the pattern that is shown reads it."""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import lzma
import re
import shlex
import zipfile
from pathlib import Path

import pytest

from pytest_dlperf.cli import extract as command
from pytest_dlperf.cli.main import main
from pytest_dlperf.measure.logs.extract import LogResult, extract, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.unit.measure.test_log_scale import codes, message, read


def refused(path: Path, content: bytes) -> LogResult:
    path.write_bytes(content)
    result = extract(path, ParseOptions())
    assert result.throughput is None
    return result


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("train.log", "step 1\n")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"step 1\n", mtime=0), "gzip; decompress it"),
        (bz2.compress(b"step 1\n"), "bzip2; decompress it"),
        (lzma.compress(b"step 1\n"), "xz; decompress it"),
        (b"\x28\xb5\x2f\xfd rest", "zstd; decompress it"),
        (zipped(), "a zip archive; unpack it"),
        (bytes(range(1, 30)) * 40, "binary"),
    ],
)
def test_a_file_that_is_no_log_is_said_to_be_what_it_is(
    tmp_path: Path, content: bytes, said: str
) -> None:
    result = refused(tmp_path / "train.log", content)

    assert codes(result) == {"unreadable-log"}
    assert said in message(result, "unreadable-log")


def lines(form: str, count: int = 100) -> str:
    return "".join(
        form.format(i=i, mark=i % 7, stamp=f"10:{i // 60:02d}:{i % 60:02d}")
        for i in range(1, count + 1)
    )


#: Lines of programs that are not known, and what the pattern that is shown makes of them.
READ = {
    "update {i}: objective 2.{mark}, took 500.00ms\n": 2.0,
    "[{i}/9000] step={i} loss=2.{mark} tok/sec: 13,172\n": 13172.0,
    "epoch 1 | batch {i}/500 | 0.25 s/it | loss 3.{mark}\n": 4.0,
    '{{"step": {i}, "loss": 2.{mark}, "samples_per_second": 512.5}}\n': 512.5,
    "step {i} loss 2.{mark}\nother words\nspeed: 12.5 images/sec\n": 12.5,
    "Epoch 1/9 my train loop:  39%|###   | {i}/900 [00:08<00:12, 127.70it/s]\n": 127.7,
    "{stamp} batch {i} loss 2.{mark}\n": 1.0,
    "Fit: 0 [ {i}/ 1251 (  4%)]  Time: 0.250s, 16 files\n": 4.0,
    "steps: {i} loss: 2.{mark} iter time (s): 0.398 samples/sec: 158.75\n": 158.75,
    "steps:  {i}%|###  | {i}/9000 [02:39<00:00,  1.25it/s, avr_loss=0.12{mark}]\n": 1.25,
    "Step {i} | loss:1.{mark} lr:2e-05 tokens_per_second_per_gpu:4956.747 peak:20.1 \n": 4956.747,
    "Epoch:[  1/  1], step:[  {i}/ 1000], loss: 2.{mark}, per_step_time: 500ms, lr: 0\n": 2.0,
    "I0304 11:00:01.5 1399 writer.py:48] [{i}] loss=1.{mark}, steps_per_sec=3.25\n": 3.25,
    "iter {i} total time: {i}.00 s, step time: 0.50 s\n": 2.0,
}


#: The same, of lines whose number has a name or a unit that is easily taken for another.
READ |= {
    "batch {i} loss 2.{mark} sec/batch 0.500\n": 2.0,
    "step {i} loss 2.0 data_time 0.010s step 0.500s\n": 2.0,
    "step {i} loss 2.{mark} step_time_ms=500.0\n": 2.0,
    "iter {i} loss 2.{mark} time (ms): 500.0\n": 2.0,
    "iter {i} | time (ms): 500.0 | loss 2.{mark}\n": 2.0,
    "{stamp} Step: {i}, Tokens per Sec:     8{i:03d}\n": 8075.0,
    "| {i}/2983 batches | lr 20.00 | ms/batch 500.00 | loss 2.{mark}\n": 2.0,
    "[{stamp}] Metrics (step {i}) - Elements per Second (wps): 8,{i:03d} | LR: 1\n": 8075.0,
    "Step {i}: 33760 tokens/s per GPU, loss 2\n": 33760.0,
    "[Epoch 0][Batch {i}], Speed: 64.123 samples/sec, loss=2.{mark}\n": 64.123,
    "step {i} | 16.0 images/s/gpu | 64.0 images/s\n": 64.0,
    '{{"step": {i}, "tokens_per_sec": 3376.65744500166, "loss": 2.{mark}}}\n': 3376.657,
    "step: {i}, tokens_per_second: 64.0, tokens_per_second_per_device: 8.0\n": 64.0,
    "Step {i}: device tokens/s 3376, loss 2\n": 3376.0,
    "step {i} | avg samples/s: 99.0 | cur samples/s: 64.0\n": 64.0,
    "step {i} loss 2.{mark} 64.0 images/s\neval at step {i} acc 0.1 300.{mark} images/s\n": 64.0,
}


#: The same, where a line has several speeds, and names or units tell them apart.
READ |= {
    "step {i} rollout 5123.5 tok/s train 12850.5 tok/s loss 2.{mark}\n": 12850.5,
    "iter {i} | prefill: 99.5 samples/s | training: 12.5 samples/s | loss 2.{mark}\n": 12.5,
    "step {i} local throughput: 16.5 images/s, global throughput: 64.0 images/s\n": 64.0,
    "step {i} | node tokens/s: 99.5 | cluster tokens/s: 64.5 | loss 2.{mark}\n": 64.5,
    "step {i} | rank tok/s 8.5 | all ranks... | cluster tok/s 64.5 loss 2.{mark}\n": 64.5,
    "batch {i} loss 2.{mark} 16.5 images/s on this GPU, 64.5 images/s in total\n": 16.5,
    "step {i} loss 0.7{mark} samples/s (avg): 64.5 cur samples/s: 32.5\n": 32.5,
    "step {i} acc 71.{mark} images/s (global) = 64.5\n": 64.5,
    "step {i} loss: 0.7{mark} tokens/s global: 64.5\n": 64.5,
    "step {i} gnorm 1.2{mark} s/it: 0.50\n": 2.0,
    "step {i} all2all: 12.5 ms/step, step: 500.5 ms/step\n": 1.998,
    "iter {i} | nccl 12.5 ms/it | whole 500.5 ms/it\n": 1.998,
    "step {i} | prompt 99.5 tok/s | completion 51.5 tok/s | step time 0.50 s\n": 2.0,
    "step {i} | micro_step_time: 125.5 ms | step_time: 500.5 ms\n": 1.998,
    "iteration {i} | 76800 steps/s | iteration time: 0.50 s\n": 2.0,
    "step {i} | peak 99.5 samples/s | now 64.5 samples/s | loss 2.{mark}\n": 64.5,
    "step {i} timing/seqs_per_second=64.5 timing/seqs_per_second_per_core=8.5\n": 64.5,
    '{{"step": {i}, "loss": 2.{mark}, "throughput/samples_per_sec": 64.5}}\n': 64.5,
    "step = {i} (9.5 sec)\nglobal_step/sec: 10.5\nexamples/sec: 64.{mark}\n": 64.5,
}


#: The same, of other words for the step, and of brackets before it.
READ |= {
    f"{step} loss 2.{{mark}} | 64.5 samples/s\n": 64.5
    for step in (
        "global_step: {i},",
        "global_step={i}",
        "train_step {i}",
        "cur_iter: {i} |",
        "num_steps: {i},",
        "current_step = {i},",
        "optimizer_step={i}",
        "train/global_step {i}",
        "epoch 0.5{mark} global_step {i}",
        "log_step 3, max_steps 900, step {i}",
        "[{stamp}] [{i}/1000]",
        "[06/11 {stamp}] trainer: [{i}/1000]",
        "[06/11 {stamp}] [ppdet] Epoch: [0] [ {i}/ 600] learning_rate: 0.0001",
        "[3/8] workers [{stamp}] [  {i}] lr 0.1",
    )
}
#: The same, with words in brackets between a unit and its number, and with Unix times.
READ |= {
    "step {i} loss 2.{mark} samples/s [global]: 64.5\n": 64.5,
    "step {i} | images/sec [all devices]: 64.5 | loss 2.{mark}\n": 64.5,
    "step {i} loss 2.{mark} tokens/s {{global}}: 64.5\n": 64.5,
    "step {i} loss 2.{mark} | tok/s <total> = 64.5\n": 64.5,
    "step {i}, samples/s, total: 64.5, loss 2.{mark}\n": 64.5,
    "step {i} | tokens/sec - global: 64.5 | loss 2.{mark}\n": 64.5,
    "step {i} | samples/s [local]: 8.5 | samples/s [global]: 64.5\n": 64.5,
    "step {i} | throughput [samples/s]: 64.5 | loss 2.{mark}\n": 64.5,
    "step {i} | time [ms]: 500.0 | loss 2.{mark}\n": 2.0,
    "step {i} loss 2.{mark} samples/s [per GPU]: 64.5\n": 64.5,
    "[1732{i:06d}.5{mark}] step {i} loss 2.0\n": 1.0,
    "1732{i:06d}.25 train: step={i} loss=2.{mark}\n": 1.0,
    '{{"ts": 1732{i:06d}.5, "step": {i}, "loss": 2.{mark}}}\n': 1.0,
}


READ |= {
    '{{"_step": {i}, "learning_rate": 0.1, "tokens_per_sec": 64.5}}\n': 64.5,
    '{{"trainer/global_step": {i}, "loss": 2.{mark}, "perf/tokens_per_sec": 64.5}}\n': 64.5,
}


def shown(result: LogResult) -> list[str]:
    """Return the options that a refusal shows."""
    match = re.search(r"(?:read|took) by (--pattern=[^\n]*)", message(result, "unknown-format"))
    assert match is not None, result.problems
    return [word for word in shlex.split(match[1]) if word.startswith("--") and "=" in word]


@pytest.mark.parametrize(("form", "rate"), READ.items(), ids=[form.strip() for form in READ])
def test_the_pattern_that_is_shown_reads_the_log(tmp_path: Path, form: str, rate: float) -> None:
    path = tmp_path / "train.log"
    options = shown(refused(path, lines(form).encode()))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    sizes = ["--batch_size_per_device=1", "--world_size=1"]

    asked = command.parse_options(parser.parse_args([str(path), *options, *sizes]))

    assert extract(path, asked).throughput == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("loss 2.{mark}\n", "none has a rate or the time of an iteration"),
        ("step {i} loss 2.{mark}\n", "'step 100 loss 2.2' has a step alone"),
        ("{i} loss 2.{mark} 12 images/sec\n", "no step is near it"),
        ("Loading: 30%|##  | 3/3 [00:01<00:00, 2.82it/s]\n", "nothing shows to be training's"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, form: str, said: str) -> None:
    result = refused(tmp_path / "train.log", lines(form).encode())

    assert said in message(result, "unknown-format")
    assert "--pattern" not in message(result, "unknown-format")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("step {i}: loss 2.0 12'34{mark} images/s\n", "has a mark between its digits"),
        ("step {i}: loss 2.0 12_34{mark} images/s\n", "has a mark between its digits"),
        ("step {i}: loss 2.0 12\u202f34{mark} images/s\n", "has a mark between its digits"),
        ("step {i}: loss 2.0 12 34{mark} images/s\n", "with a blank as a mark of thousands"),
        ("step {i}: loss 2.0 12,36{mark} images/s\n", "a mark of thousands or a decimal one"),
        ("step {i}: loss 2,{mark} 12.363 images/s\n", "its point may be one of thousands"),
        ("step {i}: loss 2.80{mark} 12.363 images/s\n", "its point may be one of thousands"),
        ("step {i}: loss 2.0 1200,5 images/s\n", "has a mark between its digits"),
        ("step {i} loss 2.0 12.{mark}k tok/s\n", "a letter multiplies it"),
        ("step {i} loss 2.0 | 12.{mark} Mtok/s\n", "a letter multiplies it"),
        ("step {i} loss 2.0 time: {i}.5s\n", "as the time since the begin does"),
        ("step {i} loss 2.0 time 48529{mark}us\n", "it is in us"),
        ("step {i} loss 2.0 time 485.{mark}\n", "in seconds or in milliseconds"),
        ("iter {i}0 loss 2.0 time 5.0{mark}s\n", "or of the 10 between two lines"),
        (
            "Train Epoch: 0 [{i}/9000 (0%)] Batch (t): 0.5, 523.{mark}/s, 65.4/s/gpu\n",
            "'523.2/s' is not read: nothing says what it counts",
        ),
        (" --> TIME: 2025-03-04 10:11:12 -- STEP: {i}/300\n", "stand still"),
        ("step {i} | ours 99.5 tok/s | theirs 51.{mark} tok/s\n", "which is training's"),
        ("step {i} | policy: 9.5 samples/s, rollout: 5.{mark} samples/s\n", "'rollout: 5.2"),
        ("step {i} | enc 99.5 images/s dec 51.{mark} images/s\n", "'dec 51.2 images/s' is one"),
        ("step {i} | 99.5 images/s | 51.{mark} images/s\n", "'51.2 images/s' is one as well"),
        ("step {i} | it 0.71{mark} samples/s (avg) [x] 51.5\n", "may be that of the next number"),
        ("step {i} | 0.71{mark} samples/s (avg) 51.5\n", "may be that of the next number"),
        ("step {i} | fwd 10.5 ms/step | opt 3.{mark} ms/step\n", "'opt' may be a part"),
        ("step {i} gen time 25.5 s | training time 12.{mark} s\n", "'gen time 25.5 s' beside it"),
        ("step {i} | iter time 12.{mark} ms (x4 accumulation)\n", "one micro batch"),
        ("update {i} | micro 4 | 12.{mark} it/s\n", "one micro batch"),
        ("iteration {i} | fps 1024 | 102{mark} steps/s\n", "may be an environment's"),
        ("Learning iteration {i}/900\nComputation: 7680{mark} steps/s\n", "an environment's"),
        ("learning_rate: 0.0001 | lr_rate 0.1{mark} | step {i}\n", "has a step alone"),
        ("update {i} | SPS 3 | steps/s: 102{mark}\n", "may be an environment's"),
    ],
)
def test_a_number_whose_meaning_nothing_says_is_named_and_no_pattern_is_shown(
    tmp_path: Path, form: str, said: str
) -> None:
    result = refused(tmp_path / "train.log", lines(form).encode())

    assert said in message(result, "unknown-format")
    assert "--pattern" not in message(result, "unknown-format")


def test_a_clock_is_shown_with_the_epoch_whose_steps_start_over(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    text = "".join(
        f"2025-03-04 10:{i // 12:02d}:{i % 12 * 5:02d} epoch {i // 40} step {i % 40}/40 loss 2.0\n"
        for i in range(120)
    )
    options = shown(refused(path, text.encode()))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    sizes = ["--batch_size_per_device=1", "--world_size=1"]

    asked = command.parse_options(parser.parse_args([str(path), *options, *sizes]))

    assert extract(path, asked).throughput == pytest.approx(0.2)


def test_means_of_a_bar_since_it_began_are_said_to_be_so(tmp_path: Path) -> None:
    text = ""
    for i in range(1, 201):
        minute, second = divmod(100 + i // 2, 60)
        state = f"{minute:02d}:{second:02d}<0:10, {(100 + i / 2) / i:.2f}s/it"
        text += f"steps: {i // 2:3d}%|##  | {i}/200 [{state}]\r"

    path = tmp_path / "train.log"
    result = refused(path, text.encode() + b"\n")

    assert "a mean since the bar began" in message(result, "unknown-format")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    sizes = ["--batch_size_per_device=1", "--world_size=1"]
    asked = command.parse_options(parser.parse_args([str(path), *shown(result), *sizes]))
    # The first step took 100 s, which are in all of the means.
    assert extract(path, asked).throughput == pytest.approx(2, rel=0.03)


def test_the_bar_of_a_notebook_is_read_as_a_mean_since_it_began(tmp_path: Path) -> None:
    """As Unsloth's notebooks have it; the first step took 60 s."""
    text = ""
    for i in range(1, 301):
        minute, second = divmod(60 + i // 2, 60)
        rate = i / (60 + i / 2)
        text += (
            f"\r [{i:3d}/300 {minute:02d}:{second:02d} < 01:48, {rate:.2f} it/s, Epoch 0.{i}/1]"
        )
    path = tmp_path / "train.log"

    options = shown(refused(path, text.encode() + b"\n"))

    assert "--averaging=running" in options
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    asked = command.parse_options(parser.parse_args([str(path), *options]))
    assert extract(path, asked).throughput == pytest.approx(2, rel=0.05)


def bar_of(name: str, times: list[float], *, is_mean: bool) -> str:
    """Return the states of a bar whose steps take so long, by means since it began or by each."""
    text, elapsed = "", 0.0
    for i, each_s in enumerate(times, 1):
        elapsed += each_s
        shown_s = elapsed / i if is_mean else each_s
        speed = f"{1 / shown_s:.2f}it/s" if shown_s <= 1 else f"{shown_s:.2f}s/it"
        clock = f"{int(elapsed) // 60:02d}:{int(elapsed) % 60:02d}<0:10"
        text += f"{name}: {i // 20:3d}%|##  | {i}/2000 [{clock}, {speed}, avr_loss=0.1]\r"
    return text + "\n"


@pytest.mark.parametrize("name", ["steps", "Fine-tuning", "my loop"])
@pytest.mark.parametrize(("fast_s", "slow_s"), [(1.6, 3.2), (0.1, 0.2), (2.0, 1.5)])
@pytest.mark.parametrize("turn", [250, 700])
def test_a_bar_of_means_that_were_steady_at_first_is_read_by_its_clock(
    tmp_path: Path, name: str, fast_s: float, slow_s: float, turn: int
) -> None:
    times = [fast_s] * turn + [slow_s] * (1000 - turn)
    path = tmp_path / "train.log"
    result = refused(path, bar_of(name, times, is_mean=True).encode())

    options = shown(result)

    assert "--averaging=running" in options
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    sizes = ["--batch_size_per_device=1", "--world_size=1"]
    asked = command.parse_options(parser.parse_args([str(path), *options, *sizes]))
    assert extract(path, asked).throughput == pytest.approx(950 / sum(times[50:]), rel=0.05)


@pytest.mark.parametrize("is_mean", [False, True])
@pytest.mark.parametrize(
    "times",
    [[0.9] * 300 + [3.0] * 500, [1.4] * 250 + [0.5] * 700, [0.97, 1.04] * 400],
    ids=["to s/it", "to it/s", "both"],
)
def test_a_bar_that_turns_from_one_unit_to_another_is_not_read_in_part(
    tmp_path: Path, times: list[float], is_mean: bool
) -> None:
    path = tmp_path / "train.log"
    result = refused(path, bar_of("Tuning", times, is_mean=is_mean).encode())
    said = message(result, "unknown-format")

    if "--pattern" not in said:
        assert "turns from one unit to another" in said or "by the bar's own clock" in said
        return
    # A mean may stay in one unit for most of a log.
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    sizes = ["--batch_size_per_device=1", "--world_size=1"]
    asked = command.parse_options(parser.parse_args([str(path), *shown(result), *sizes]))
    rate = len(times[50:]) / sum(times[50:])
    assert extract(path, asked).throughput == pytest.approx(rate, rel=0.05)


def test_a_bar_whose_rates_are_not_those_of_its_clock_is_not_read(tmp_path: Path) -> None:
    text = bar_of("Tuning", [0.5] * 400, is_mean=False).replace("2.00it/s", "9.00it/s")

    said = message(refused(tmp_path / "train.log", text.encode()), "unknown-format")

    assert "by the bar's own clock they are 1.99" in said
    assert "--pattern" not in said


@pytest.mark.parametrize("speed", ["768.{mark} it/s", "update time: 0.05{mark} s"])
def test_a_speed_that_time_stamps_contradict_is_not_shown(tmp_path: Path, speed: str) -> None:
    text = lines("2025-03-04 {stamp} update {i} loss 0.1 " + speed + "\n", 300)

    said = message(refused(tmp_path / "train.log", text.encode()), "unknown-format")

    assert "by the time stamps" in said or "clock-mismatch" in said
    assert "(?P<rate>" not in said
    assert "(?P<seconds>" not in said


def test_a_bar_of_iterations_is_read_where_iterations_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(bar_of("Fine-tuning", [0.5] * 300, is_mean=False), encoding="utf-8")

    result = extract(path, ParseOptions(in_iterations=True))

    assert "--unit=iterations" in shown(result)


@pytest.mark.parametrize(
    "words", ["time taken for 10 steps: {:.2f}s", "10 steps took {:.2f} s", "10 iters in {:.2f}s"]
)
def test_the_time_of_several_iterations_is_not_shown_as_that_of_one(
    tmp_path: Path, words: str
) -> None:
    text = "".join(f"step {i} {words.format(5 + i % 3 / 100)}\n" for i in range(9, 999, 10))

    said = message(refused(tmp_path / "train.log", text.encode()), "unknown-format")

    assert "(?P<seconds>" not in said


def test_a_mean_leaves_open_over_what_it_is(tmp_path: Path) -> None:
    text = "".join(
        f"step {i} | avg throughput {32 * i / (20 + 0.5 * i):.1f} samples/s\n"
        for i in range(1, 150)
    )

    said = message(refused(tmp_path / "train.log", text.encode()), "unknown-format")

    assert "--averaging=running (a mean since the begin), window" in said


def test_lines_of_ranks_leave_open_whose_rate_is_printed(tmp_path: Path) -> None:
    text = "".join(
        f"[rank {rank}] step {i} loss 2.0 1{rank}.{i % 9} images/s\n"
        for i in range(100)
        for rank in range(4)
    )

    said = message(refused(tmp_path / "train.log", text.encode()), "unknown-format")

    assert "--scope=device (of one rank) or --scope=global (of all ranks)" in said


@pytest.mark.parametrize(
    ("speed", "part"),
    [
        ("local throughput: 16.{mark} images/s", "local"),
        ("16.{mark} samples/s/worker", "worker"),
        ("samples/s [local]: 16.{mark}", "local"),
        ("local_tokens_per_sec=16.{mark}", "local"),
        ("worker throughput 16.{mark} tok/s", "worker"),
        ("tok/s (shard): 16.{mark}", "shard"),
    ],
)
def test_whose_rate_a_part_has_is_asked(tmp_path: Path, speed: str, part: str) -> None:
    path = tmp_path / "train.log"
    result = refused(path, lines("step {i} loss 2.{mark} " + speed + "\n").encode())

    said = message(result, "unknown-format")
    assert f"--scope=device, process or node (whose rate it is of {part!r})" in said
    # The choice comes behind a comma.
    options = [word.rstrip(",") for word in shown(result) if not word.startswith("--scope=")]
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = [str(path), *options, "--world_size=4"]
    assert extract(path, command.parse_options(parser.parse_args(arguments))).throughput is None
    asked = command.parse_options(parser.parse_args([*arguments, "--scope=device"]))
    assert extract(path, asked).throughput == pytest.approx(4 * 16.3, rel=0.02)


def test_no_pattern_is_shown_that_reads_evaluation_as_well(tmp_path: Path) -> None:
    bar = "Epoch {i}: 39%|###   | {i}/900 [00:08<00:12, 127.70it/s]\n"

    result = refused(tmp_path / "train.log", lines("[Eval] Best at " + bar).encode())

    assert "--pattern" not in message(result, "unknown-format")


def test_a_stream_that_cannot_be_read_again_is_refused() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    result = extract_stream(Pipe(b"words\n"), "train.log", ParseOptions())

    assert codes(result) == {"unknown-format"}


OVER_LINES = "[step={i}/2500,epoch=0]\n  loss=2.5\n  throughput/tokens_per_second={rate}\n"


@pytest.mark.parametrize(
    "regexes",
    [
        (r"step=(?P<step>\d+)/", r"per_second=(?P<rate>[\d,]+)"),
        (r"step=(?P<step>\d+)/|per_second=(?P<rate>[\d,]+)",),
        (r"per_second=(?P<rate>\S+)", r"loss=(?P<loss>\S+)", r"step=(?P<step>\d+)/"),
    ],
)
def test_a_record_over_several_lines_is_read_by_several_patterns(
    tmp_path: Path, regexes: tuple[str, ...]
) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        "".join(OVER_LINES.format(i=i, rate="47,941") for i in range(10, 1000, 10)),
        encoding="utf-8",
    )
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = [word for regex in regexes for word in ("--pattern", regex)]
    options.append("--unit=tokens")

    result = extract(path, command.parse_options(parser.parse_args([str(path), *options])))

    assert result.throughput == pytest.approx(47941)
    assert result.iterations == 990 - 50


def test_a_rate_before_the_first_step_belongs_to_none(tmp_path: Path) -> None:
    text = "speed 99 it/s\n" + "".join(f"step {i}\nspeed 2 it/s\n" for i in range(1, 100))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = [
        "--pattern",
        r"step (?P<step>\d+)",
        "--pattern",
        r"speed (?P<rate>\S+) it",
        "--skip=0",
        "--unit=iterations",
    ]

    asked = command.parse_options(parser.parse_args(options))
    first, second = (read(tmp_path / name, text, fmt=asked.fmt, skip=0) for name in "ab")

    assert first.throughput == second.throughput == pytest.approx(2)


PLAIN = r"step (?P<step>\d+) \| (?P<rate>[\d.]+)"


def by_pattern(path: Path, text: str, regex: str) -> LogResult:
    path.write_text(text, encoding="utf-8")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = parser.parse_args([str(path), f"--pattern={regex}"])
    return extract(path, command.parse_options(arguments))


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("word", ["eval ", "[Validation] ", "Test: ", '{"mode": "val"} '])
def test_lines_of_an_evaluation_are_no_records_of_a_pattern(
    tmp_path: Path, word: str, is_first: bool, every: int
) -> None:
    text = ""
    for i in range(200):
        both = [f"train step {i} | 100.0 samples/s\n"]
        if i % every == 0:
            both.insert(0 if is_first else 1, f"{word}step {i} | 300.0 samples/s\n")
        text += "".join(both)

    result = by_pattern(tmp_path / "train.log", text, PLAIN)

    assert result.throughput == pytest.approx(100)
    assert "duplicate-ranks" not in codes(result)


@pytest.mark.parametrize(
    "head",
    [
        "train (eval 20) ",
        "val_loss 2.1 | val loss 2.2 | ",
        "val: 2.1, ",
        "runs/eval/a.log ",
        "eval_steps=100 ",
    ],
)
def test_words_beside_an_evaluation_leave_a_record(tmp_path: Path, head: str) -> None:
    text = "".join(f"{head}step {i} | 100.0 samples/s\n" for i in range(200))

    assert by_pattern(tmp_path / "train.log", text, PLAIN).throughput == pytest.approx(100)


def test_a_pattern_that_names_an_evaluation_reads_it(tmp_path: Path) -> None:
    text = "".join(f"eval step {i} | 300.0 samples/s\n" for i in range(200))

    result = by_pattern(tmp_path / "train.log", text, "eval " + PLAIN)

    assert result.throughput == pytest.approx(300)


@pytest.mark.parametrize("count", [60, 1000])
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize(
    ("speed", "regex"),
    [
        ("{rate} samples/s", PLAIN),
        ("{seconds} s", r"step (?P<step>\d+) \| (?P<seconds>[\d.]+)"),
    ],
)
def test_unlike_lines_of_a_step_are_not_averaged(
    tmp_path: Path, speed: str, regex: str, every: int, count: int
) -> None:
    text = ""
    for i in range(10, 10 * count, 10):
        text += f"step {i} | {speed.format(rate=100.0, seconds=0.9)}\n"
        if i // 10 % every == 0:
            text += f"B step {i} | {speed.format(rate=300.0, seconds=0.3)}\n"
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = [str(path), f"--pattern={regex}", "--batch-size=8", "--world-size=1"]

    result = extract(path, command.parse_options(parser.parse_args(arguments)))

    assert result.throughput is None
    assert "several lines of a step" in message(result, "unknown-format")


def test_ranks_with_a_slow_step_now_and_then_are_taken_for_one(tmp_path: Path) -> None:
    text = "".join(
        f"step {i} | {40.0 if rank == 3 and i % 50 == 0 else 100.0} samples/s\n"
        for i in range(400)
        for rank in range(4)
    )

    assert by_pattern(tmp_path / "train.log", text, PLAIN).throughput is not None


@pytest.mark.parametrize("options", [(), ("--skip=0", "--until=300")])
def test_a_rate_of_the_whole_run_asks_for_prints_and_names_no_option(
    options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    log = tmp_path / "hf.log"
    log.write_text(
        "***** Running training *****\n"
        + "".join(f"{{'loss': {3 - 0.05 * n:.2f}, 'epoch': {n / 30:.2f}}}\n" for n in range(1, 31))
        + "{'train_runtime': 30.1, 'train_samples_per_second': 318.9, 'train_loss': 1.9}\n",
        encoding="utf-8",
    )
    main(["extract", str(log), *options])
    written = "".join(capsys.readouterr())
    assert "a log with the progress bar, or with a rate or a time in each print" in written
    assert "--skip" not in written
