"""What is said of a log that is not read, and whether the pattern that is shown reads it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import shlex
import zipfile
from pathlib import Path

import pytest

from pytest_dlperf.cli.main import main
from pytest_dlperf.measure.logs.extract import LogResult, extract, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.extracted import extracted
from tests.unit.measure.test_log_scale import codes, message


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
    sizes = ["--batch_size_per_device=1", "--world_size=1"]

    assert extracted(path, *options, *sizes).throughput == pytest.approx(rate, rel=0.01)


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
        (
            "step {i} loss 2.0 time: {i}.5s\n",
            "since the begin does; a pattern reads that by (?P<elapsed>",
        ),
        ("step {i} loss 2.0 time 48529{mark}us\n", "it is in us"),
        ("step {i} loss 2.0 time 485.{mark}\n", "in seconds or in milliseconds"),
        ("iter {i}0 loss 2.0 time 5.0{mark}s\n", "or of the 10 between two lines"),
        (
            "Train Epoch: 0 [{i}/9000 (0%)] Batch (t): 0.5, 523.{mark}/s, 65.4/s/gpu\n",
            "'523.2/s' is not read: nothing says what it counts",
        ),
        (" --> TIME: 2025-03-04 10:11:12 -- STEP: {i}/300\n", "stand still, or go back"),
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
    sizes = ["--batch_size_per_device=1", "--world_size=1"]

    assert extracted(path, *options, *sizes).throughput == pytest.approx(0.2)


@pytest.mark.parametrize("speed", ["768.{mark} it/s", "update time: 0.05{mark} s"])
def test_a_speed_that_time_stamps_contradict_is_not_shown(tmp_path: Path, speed: str) -> None:
    text = lines("2025-03-04 {stamp} update {i} loss 0.1 " + speed + "\n", 300)

    said = message(refused(tmp_path / "train.log", text.encode()), "unknown-format")

    assert "by the time stamps" in said or "clock-mismatch" in said
    assert "(?P<rate>" not in said
    assert "(?P<seconds>" not in said


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
    assert f"--scope=device or process or node (whose rate it is of {part!r})" in said
    options = [word for word in shown(result) if not word.startswith("--scope=")]
    assert extracted(path, *options, "--world_size=4").throughput is None
    whose = extracted(path, *options, "--world_size=4", "--scope=device")
    assert whose.throughput == pytest.approx(4 * 16.3, rel=0.02)


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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"_runtime": 1234.5, "_step": 1000, "train/tokens_per_sec": 123.4}', "one JSON object"),
        (
            b"\x18\0\0\0\0\0\0\0abcd\x09\0\0\0\0\0\0\0\0\x1a\x0dbrain.Event:2",
            "TensorBoard's events",
        ),
    ],
)
def test_a_file_that_has_no_prints_is_said_to_be_what_it_is(
    tmp_path: Path, content: bytes, said: str
) -> None:
    result = refused(tmp_path / "train.log", content)

    assert said in message(result, "unreadable-log")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("Epoch {i}: train loss 2.{mark}\n", "'Epoch 100: train loss 2.2' has an epoch alone"),
        ("loss 2.{mark}\n", "'loss 2.2' has no step"),
        ("[{i}/5000] loss 2.{mark} (4.97s)\n", "nothing says what '4.97s' is the time of"),
        ('{{"time_ms": 17153261{i:03d}00, "key": "seed", "value": {mark}}}\n', "none has a rate"),
        (
            "Fetching {mark} files:  50%|###  | {i}/200 [00:01<00:00, 4.97it/s]\n",
            "that nothing shows to be training's",
        ),
        (
            "Generating train split: {i} examples [00:02, 3{mark}.6 examples/s]\n",
            "no step is near",
        ),
    ],
)
def test_the_line_that_is_most_like_a_record_is_shown_with_what_it_lacks(
    tmp_path: Path, form: str, said: str
) -> None:
    result = refused(tmp_path / "train.log", lines(form).encode())

    assert said in message(result, "unknown-format")
    assert "--pattern" not in message(result, "unknown-format")
