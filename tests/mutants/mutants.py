"""Planted faults: one broken line each, and the tests that must find it.

The line is named by its text, not by its file, so that a module can be moved.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Mutant(NamedTuple):
    """One broken line."""

    name: str
    line: str
    broken: str
    #: What pytest is given; the first failure is enough.
    tests: str
    #: The tox environment that runs these tests: ``newest`` is in tox, ``torch`` in .ci/run.
    env: str = "newest"


MUTANTS: Final = (
    # worker
    Mutant(
        "a batch that is not the declared one is not noticed",
        "    if input_shapes and not sizes & fitting:",
        "    if input_shapes and not sizes:",
        "tests/torch -k wrong-batch",
        "torch",
    ),
    Mutant(
        "fp32 may do its matrix work in bfloat16",
        '    if (share < 0.5 and not is_unknown) or (expected == "float32" and shorter > 0):',
        "    if share < 0.5 and total < 0:",
        "tests/torch -k wrong-dtype",
        "torch",
    ),
    Mutant(
        "a loss that does not fall is not noticed",
        "    first, last = statistics.median(values[:count]), statistics.median(values[-count:])",
        "    first, last = math.inf, statistics.median(values[-count:])",
        "tests/torch -k flat",
        "torch",
    ),
    Mutant(
        "injected time is not spent",
        "if protocol.inject else None",
        "if protocol.inject < 0 else None",
        "tests/torch -k injection",
        "torch",
    ),
    Mutant(
        "the loss at the end is that of the beginning",
        "        loss_last=statistics.fmean(losses[-count:]) if losses else None,",
        "        loss_last=statistics.fmean(losses[:count]) if losses else None,",
        "tests/unit/measure/test_summary.py",
    ),
    # launch
    Mutant(
        "what ignores SIGTERM is left alive",
        "        _signal_all(signal.SIGKILL)",
        "        _signal_all(signal.SIGCONT)",
        "tests/unit/launch/test_supervisor.py",
    ),
    Mutant(
        "ranks survive the death of pytest",
        "        if pytest_pipe in readable and not os.read(pytest_pipe, 1):",
        "        if pytest_pipe in readable and os.read(pytest_pipe, 1):",
        "tests/unit/launch/test_supervisor.py",
    ),
    Mutant(
        "a run that its timeout ended is said to have ended by itself",
        '            return {"end": "timeout"}',
        '            return {"end": "exited"}',
        "tests/unit/launch/test_supervisor.py",
    ),
    Mutant(
        "two cases hold the host at once",
        "                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "                    break",
        "                    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)\n"
        "                    break",
        "tests/unit/launch/test_lease.py",
    ),
    # measure
    Mutant(
        "warm-up is measured as well",
        "    return [span for span in spans if first <= span.first_step and span.last_step < end]",
        "    return [span for span in spans if 0 <= span.first_step and span.last_step < end]",
        "tests/unit/measure/test_summary.py",
    ),
    Mutant(
        "the fastest rank sets the rate",
        "    slowest = max(records, key=lambda r: _window_seconds(case, r))",
        "    slowest = min(records, key=lambda r: _window_seconds(case, r))",
        "tests/unit/measure/test_summary.py",
    ),
    Mutant(
        "ranks that train different models are not noticed",
        "    if len(whole) > 1 or _shards_differ(",
        "    if len(whole) > len(records) or _shards_differ(",
        "tests/unit/measure/test_summary.py",
    ),
    Mutant(
        "a run beside a busy process counts",
        "_SHARE: Final = 0.06",
        "_SHARE: Final = 0.6",
        "tests/unit/measure",
    ),
    Mutant(
        "secrets in the names of a profile are not masked",
        "    public_record: ProfileRecord = masked_values(record, secrets_of(os.environ))",
        "    public_record: ProfileRecord = masked_values(record, ())",
        "tests/unit/worker/test_profile_masks.py",
    ),
    # judge
    Mutant(
        "parts are named that no profile and no verdict shows",
        "    is_shown = agrees and _is_change(judged)",
        "    is_shown = True",
        "tests/unit/judge/explain/test_attribution.py",
    ),
    Mutant(
        "an added call is taken to be like the others of its operator",
        "    counted_ms = statistics.fmean(by_calls[1]) - statistics.fmean(by_calls[0])",
        "    counted_ms = statistics.fmean(by_calls[1])",
        "tests/unit/judge/explain/test_attribution.py",
    ),
    Mutant(
        "what is slower is not called so",
        "    return contrast.shift + reach < -margin(rule.min_effect, sign)",
        "    return contrast.shift - reach > margin(rule.min_effect, sign)",
        "tests/unit/judge/test_judge_verdicts.py",
    ),
    Mutant(
        "passed is what was not refuted",
        "    if contrast.certified(certify_alpha(rule, spent)) > -margin(tolerance, sign):",
        "    if contrast.shift > -margin(tolerance, sign):",
        "tests/unit/judge",
    ),
    Mutant(
        "alpha is each case's, not the suite's",
        "    return rule.alpha * rule.alarm_share * spent.alarm / max(1, rule.family)",
        "    return rule.alpha * rule.alarm_share * spent.alarm",
        "tests/unit/judge",
    ),
    Mutant(
        "other conditions are compared all the same",
        "    return measurement.conditions.differences(baseline.conditions)",
        "    return ()",
        "tests/unit/judge tests/plugin/test_flow.py",
    ),
    Mutant(
        "a changed machine is called a regression",
        "        return moved[0], moved[0].explains(change, tolerance)",
        "        return moved[0], False",
        "tests/unit/judge/test_judge_canary.py",
    ),
    Mutant(
        "a creep is compared with the last step of it alone",
        "    return tuple(session for session in (anchor, last) if session is not None)",
        "    return () if last is None else (last,)",
        "tests/unit/judge/test_creep.py",
    ),
    # logs
    Mutant(
        "a bar of evaluation is training",
        "    bar = _LIGHTNING_BAR.match(line) or _RICH_BAR.match(line)",
        '    bar = _LIGHTNING_BAR.match(line[max(0, line.find(b"Epoch ")) :])',
        "tests/unit/measure/test_log_bars.py",
    ),
    Mutant(
        "an evaluation within a block of MLPerf is training",
        '_TRAINING_STOPS: Final = ("block_stop", "eval_start")',
        '_TRAINING_STOPS: Final = ("block_stop",)',
        "tests/unit/measure/test_log_mlperf.py",
    ),
    Mutant(
        "epochs of MLPerf are counted as tokens",
        "np.where(iterations == np.floor(iterations), iterations * batch, np.nan)",
        "iterations * batch",
        "tests/unit/measure/test_log_mlperf.py",
    ),
    Mutant(
        "parts of a record make any log one of a format",
        "    return min(steps, speeds) if candidate.several_lines else speeds",
        "    return speeds",
        "tests/unit/measure/test_log_joined.py",
    ),
    Mutant(
        "a validation is in the first print of an epoch",
        "        spans_epochs=True,",
        "        spans_epochs=False,",
        "tests/unit/measure/test_log_joined.py",
    ),
    Mutant(
        "a log of a training that trained nothing has a throughput",
        "    if lost > max(SKIPPED_LEAST, SKIPPED_SHARE * measured):",
        "    if lost < 0:",
        "tests/unit/measure/test_log_trained.py",
    ),
    Mutant(
        "a message of a rank is not cut",
        "    if len(text) <= 2 * _KEPT + _WORD:",
        "    if text:",
        "tests/unit/core/test_writable.py",
    ),
    # baseline
    Mutant(
        "a regression that is accepted keeps the old level",
        "_NEW_LEVEL: Final = frozenset({Verdict.IMPROVED, Verdict.REGRESSED,",
        "_NEW_LEVEL: Final = frozenset({Verdict.IMPROVED,",
        "tests/unit/store/test_update.py",
    ),
    Mutant(
        "a regression is stored without a reason",
        "_SHOWN: Final = frozenset({Verdict.NO_BASELINE,",
        "_SHOWN: Final = frozenset({Verdict.REGRESSED, Verdict.NO_BASELINE,",
        "tests/unit/store/test_refusal.py tests/unit/store/test_update.py",
    ),
    Mutant(
        "what was made slower on purpose is stored",
        "    if measurement.inject != 0:\n        return f",
        "    if measurement.inject < 0:\n        return f",
        "tests/unit/store/test_refusal.py",
    ),
    # cli
    Mutant(
        "what a command writes is not escaped",
        "    with escaped():",
        "    with __import__('contextlib').nullcontext():",
        "tests/unit/cli/test_hostile_texts.py",
    ),
    Mutant(
        "JSON is left to what escapes the lines of a terminal",
        r"""re.sub(r"(##\w{0,32})\[", r"\1\\u005b", text)""",
        "text",
        "tests/unit/cli/test_hostile_texts.py",
    ),
    Mutant(
        "ranks do not import from where tests do",
        "workload_folder, *self.import_folders, str(self.rootdir)",
        "workload_folder, str(self.rootdir)",
        "tests/unit/flow/test_conditions.py",
    ),
)
