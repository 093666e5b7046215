"""What an outcome says survives JSON, and fits the schema that is shipped."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import PRECISIONS, Case
from pytest_dlperf.core.codec import DecodeError, decode, encode
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions, Environment, Measurement
from pytest_dlperf.core.outcome import (
    Against,
    Outcome,
    outcome_from_json,
    outcome_to_json,
    results_from_json,
)
from pytest_dlperf.core.packages import PACKAGES, packages_digest
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import Problem, RankSummary, RunSummary
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.report import json_, schemas

pytestmark = pytest.mark.newest

TEXT = st.text(max_size=6)
NUMBER = st.floats(-1e12, 1e12)
RATE = st.floats(1e-6, 1e12)
COUNT = st.integers(1, 10**9)
TEXTS = st.dictionaries(TEXT, TEXT, max_size=2)
NUMBERS = st.dictionaries(TEXT, NUMBER, max_size=2)
OPTION = TEXT | st.booleans() | st.integers(-(10**6), 10**6) | NUMBER
VERDICTS = st.sampled_from(Verdict)
TIME = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(
    lambda at: f"{at.isoformat()}Z"
)


def some(values: st.SearchStrategy[Any], *, least: int = 0) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, min_size=least, max_size=2).map(tuple)


PROTOCOLS = st.builds(
    Protocol,
    iterations=st.integers(10, 500),
    warmup=st.integers(2, 9),
    runs=st.integers(1, 5),
    max_runs=st.integers(5, 10),
    timeout_s=RATE,
    adaptive=st.booleans(),
    declared_window=st.none() | st.tuples(COUNT, COUNT),
    lengthened_from=st.none() | COUNT,
)
LENGTHS = st.sampled_from([(None, None), (1, 1), (234_619, 50)])
CASES = st.builds(
    lambda length, **fields: Case(samples_per_epoch=length[0], epochs=length[1], **fields),
    length=LENGTHS,
    suite=st.sampled_from(["tsm", "My_Net2"]),
    framework=st.sampled_from(sorted(FRAMEWORKS)),
    workload=st.just("pkg.mymodel:build"),
    precision=st.sampled_from(PRECISIONS),
    batch_size_per_device=COUNT,
    layout=st.builds(
        Layout,
        nodes=st.integers(1, 9),
        devices_per_node=st.integers(1, 9),
        device=st.sampled_from(["gpu", "cpu"]),
    ),
    size=st.sampled_from(["full", "tiny"]),
    unit=TEXT,
    protocol=PROTOCOLS,
    tolerance=st.none() | st.floats(0, 0.99),
    options=some(st.tuples(TEXT, OPTION)),
    loss=st.sampled_from(["falls", "finite"]),
)
PROBLEMS = some(st.builds(Problem, code=TEXT, message=TEXT))
RANKS = st.builds(
    RankSummary,
    rank=COUNT,
    node=TEXT,
    seconds=RATE,
    cpu_seconds=st.none() | RATE,
    peak_memory_bytes=COUNT,
    loss_first=NUMBER,
    loss_last=NUMBER,
    device_id=st.none() | TEXT,
)
RUNS = st.builds(
    RunSummary,
    throughput=RATE,
    estimates=NUMBERS,
    step_seconds=some(RATE),
    ranks=some(RANKS),
    peak_memory_bytes=COUNT,
    time_to_first_step_s=RATE,
    canary=NUMBERS,
    others_cpu_share=st.none() | RATE,
    disturbed=TEXT,
    problems=PROBLEMS,
    extras=NUMBERS,
)
CONDITIONS = st.builds(
    Conditions,
    window=st.tuples(COUNT, COUNT),
    input_shapes=some(some(COUNT)),
    options=st.dictionaries(TEXT, OPTION, max_size=3),
    **dict.fromkeys(("launcher", "unit", "dtype", "data", "hardware"), TEXT),
    **dict.fromkeys(
        ("world_size", "batch_size_per_device", "parameter_count", "threads_per_rank", "version"),
        COUNT,
    ),
)
MEASUREMENTS = st.builds(
    Measurement,
    case_id=TEXT,
    unit=TEXT,
    conditions=CONDITIONS,
    runs=some(RUNS, least=1),
    disturbed_runs=some(RUNS),
    parent_throughputs=some(RATE),
    problems=PROBLEMS,
    inject=RATE,
)
INTERVALS = st.none() | st.tuples(NUMBER, NUMBER)
KNOWN = {name: st.none() | NUMBER for name in ("now", "before", "change", "sees", "tolerance")}
JUDGEMENTS = st.builds(
    Judgement,
    verdict=VERDICTS,
    reason=st.text(min_size=1, max_size=6),
    throughput=st.builds(
        Comparison, **KNOWN, interval=INTERVALS, provisional=st.booleans(), verdict=st.none()
    ),
    metrics=st.dictionaries(
        st.sampled_from(["speedup", "peak_memory"]),
        st.builds(Comparison, **KNOWN, interval=INTERVALS, verdict=st.none() | VERDICTS),
    ),
)
ENVIRONMENTS = st.builds(
    Environment,
    machine_class=TEXT,
    hardware=TEXT,
    node=TEXT,
    software=TEXTS,
    machine=TEXTS,
    packages=st.just({}),
)
SESSIONS = st.builds(
    Session,
    time=st.just("") | TIME,
    runs=some(RATE, least=1),
    speedup=st.none() | RATE,
    canary=NUMBERS,
    software=TEXTS,
    loss_fall=st.none() | NUMBER,
    reason=TEXT,
)
AGAINST = st.builds(
    Against,
    name=TEXT,
    kind=st.sampled_from(["here", "ref", "requirement", "interpreter", "settings"]),
    commit=TEXT,
    now=TEXT,
    measurement=st.none() | MEASUREMENTS,
    software=TEXTS,
    order=some(st.sampled_from(["now", "before"])),
    unaffected=st.booleans(),
)
OUTCOMES = st.builds(
    Outcome,
    case=CASES,
    judgement=JUDGEMENTS,
    measurement=st.none() | MEASUREMENTS,
    against=st.none() | AGAINST,
    environment=st.none() | ENVIRONMENTS,
    baseline_sessions=some(SESSIONS),
    published=st.dictionaries(TEXT, TEXT | NUMBER, max_size=2),
    node_id=TEXT,
    failed=st.booleans(),
    update=st.sampled_from(["", "created", "appended", "replaced", "unchanged"]),
    time=TIME,
    commit=TEXT,
    dirty=st.booleans(),
    elapsed_s=RATE,
    folder=TEXT,
)
SMALL = Outcome(
    case=Case(
        suite="tsm",
        framework="torch",
        workload="mymodel:build",
        precision="amp",
        batch_size_per_device=16,
        layout=Layout.parse("1n8g"),
    ),
    judgement=Judgement(verdict=Verdict.NO_BASELINE, reason="nothing is stored"),
)


@cache
def validator() -> jsonschema.Draft202012Validator:
    text = files("pytest_dlperf.report").joinpath("outcomes.schema.json").read_text("utf-8")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_shipped_schema_is_that_of_the_types():
    """``python -m pytest_dlperf.report.schemas`` writes it again."""
    assert schemas.file_of("outcomes").read_text(encoding="utf-8") == schemas.render("outcomes")


def through_json(outcome: Outcome) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(outcome_to_json(outcome), allow_nan=False))
    return values


@pytest.mark.once
@settings(max_examples=60, deadline=None)
@given(outcome=OUTCOMES)
def test_every_outcome_survives_json_and_fits_the_schema(outcome):
    values = json.loads(json_.render([outcome]))
    validator().validate(values)
    (back,) = results_from_json(values, where="results.json")
    assert back == outcome
    assert json_.render([back]) == json_.render([outcome])
    # 1 == 1.0 == True: equality alone would not see another type
    assert repr(back.case) == repr(outcome.case)


@settings(max_examples=30, deadline=None)
@given(measurement=MEASUREMENTS)
def test_figures_for_readers_are_those_of_the_measurement(measurement):
    shown = through_json(replace(SMALL, measurement=measurement))["measurement"]
    assert shown["throughput"] == measurement.throughput
    assert shown["speedup"] == measurement.speedup
    assert shown["efficiency"] == measurement.efficiency
    assert shown["peak_memory_bytes"] == measurement.peak_memory_bytes
    assert (shown["speedup"] is None) == (not measurement.parent_throughputs)


def test_a_results_file_has_each_list_of_packages_once():
    packages = {"numpy": "2.1.0", "torch": "2.13.0"}
    environment = Environment(
        machine_class="2x-test", hardware="2x-test", node="n1", machine={}, packages=packages,
        software={PACKAGES: packages_digest(packages)},
    )  # fmt: skip
    outcomes = [replace(SMALL, environment=environment), replace(SMALL, environment=environment)]
    text = json_.render(outcomes)
    assert text.count("2.13.0") == 1
    validator().validate(json.loads(text))
    assert results_from_json(json.loads(text), where="results.json") == tuple(outcomes)


def test_a_results_file_is_read_as_it_was_written(tmp_path: Path):
    path = tmp_path / "new" / "results.json"
    json_.write(path, [SMALL, SMALL])
    assert json_.read(path) == (SMALL, SMALL)
    assert list(path.parent.iterdir()) == [path]


def test_the_keys_that_readers_rely_on():
    values = through_json(SMALL)
    assert values["case"]["id"] == "tsm-torch-amp-bs16-1n8g"
    assert values["case"]["layout"] == "1n8g"
    assert values["measurement"] is None
    judgement = values["judgement"]
    assert judgement["verdict"] == "no-baseline"
    assert (judgement["change"], judgement["interval"]) == (None, None)
    assert "throughput" not in judgement


def test_the_verdict_of_a_judgement_is_its_own_and_not_that_of_its_throughput():
    judgement = Judgement(
        verdict=Verdict.REGRESSED,
        reason="speedup fell",
        throughput=Comparison(now=1.0, before=1.0, change=0.0, verdict=Verdict.INCONCLUSIVE),
    )
    values = through_json(replace(SMALL, judgement=judgement))
    assert values["judgement"]["verdict"] == "regressed"
    assert outcome_from_json(values).judgement.verdict is Verdict.REGRESSED


def changed(where: tuple[str, ...], value: Any) -> dict[str, Any]:
    values = through_json(SMALL)
    inner = values
    for part in where[:-1]:
        inner = inner[part]
    inner[where[-1]] = value
    return values


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("surprise",), 1, "unknown field 'surprise'"),
        (("judgement", "verdict"), "fine", "unknown verdict 'fine'"),
        (("judgement", "reason"), None, "reason: expected str, found None"),
        (("judgement", "change"), float("nan"), "change: nan is not a finite number"),
        (("judgement", "interval"), [1.0], "interval: expected 2 values, found 1"),
        (("judgement", "metrics"), {"speedup": {"now": "1"}}, "now: expected float, found '1'"),
        (("case", "layout"), "8g", "case.layout: unknown layout '8g'"),
        (("case", "precision"), "int4", "unknown precision 'int4'"),
        (("case", "loss"), "rises", "case.loss: 'rises' is not one of"),
        (("case", "protocol", "warmup"), 150, "not below the 150 iterations"),
        (("case", "batch_size_per_device"), True, "expected int, found True"),
        (("case",), ["tsm"], "case: expected an object, found ['tsm']"),
        (("case",), None, "case: expected an object, found None"),
        (("judgement",), [], "judgement: expected an object, found []"),
        (("measurement",), [1], "measurement: expected an object"),
        (("environment",), {}, "environment.machine_class: missing"),
        (("failed",), 0, "failed: expected bool, found 0"),
    ],
)
def test_what_is_no_outcome_is_refused_by_name(tmp_path, where, value, message):
    path = tmp_path / "results.json"
    text = json.dumps({"format": 1, "outcomes": [changed(where, value)]})
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        json_.read(path)
    assert str(caught.value).startswith(f"{path}: not an outcome: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "3", '{"outcomes": []}', '{"format": 2, "outcomes": []}', "\udcff"],
)
def test_what_is_no_results_file_is_refused_by_name(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=r"results\.json: "):
        json_.read(path)


@pytest.mark.parametrize("outcomes", [3, None, [3], [None], {"a": 1}])
def test_outcomes_that_are_none_are_refused(outcomes):
    with pytest.raises(UsageError, match=r"^here: "):
        results_from_json({"format": 1, "outcomes": outcomes}, where="here")


@settings(max_examples=60, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
        max_leaves=4,
    ),
    data=st.data(),
)
def test_any_value_in_any_place_is_read_or_refused(value, data):
    where = [data.draw(st.sampled_from(sorted(through_json(SMALL))))]
    inner = through_json(SMALL)[where[0]]
    if isinstance(inner, dict) and inner and data.draw(st.booleans()):
        where.append(data.draw(st.sampled_from(sorted(inner))))
    values = changed(tuple(where), value)
    with contextlib.suppress(UsageError):
        assert isinstance(outcome_from_json(values), Outcome)


def test_absent_fields_take_their_default_and_whole_numbers_are_rates():
    session = decode(Session, {"time": "2026-11-21T04:02:00Z", "runs": [35, 35.5]})
    assert session == Session(time="2026-11-21T04:02:00Z", runs=(35.0, 35.5))
    assert [type(value) for value in session.runs] == [float, float]
    assert decode(Session, encode(session)) == session


@pytest.mark.parametrize("value", [True, 0, 1, 1.0, "1"])
def test_an_option_keeps_its_type(value):
    case = replace(SMALL.case, options=(("x", value),))
    back = decode(Case, json.loads(json.dumps(encode(case))))
    assert back == case
    assert type(back.options[0][1]) is type(value)


def test_a_field_is_named_with_the_path_to_it():
    values = encode(replace(SMALL, baseline_sessions=(Session(time="", runs=(1.0, 2.0)),)))
    values["baseline_sessions"][0]["runs"][1] = "2"
    with pytest.raises(DecodeError, match=r"^baseline_sessions\[0\]\.runs\[1\]: expected float"):
        decode(Outcome, values)


def test_fields_of_former_versions_are_read_and_dropped():
    judged = Judgement(
        verdict=Verdict.PASSED, reason="so it is", throughput=Comparison(change=0.01)
    )
    outcome = replace(SMALL, judgement=judged)
    values = through_json(outcome)
    # As files have them: a judgement and its throughput are one object
    values["judgement"] |= {
        "by_readings": True,
        "machine_change": -0.12,
        "machine_slope": 1.6,
        "measured_change": -0.19,
    }
    assert outcome_from_json(values) == outcome
    session = Session(time="2026-01-01T00:00:00Z", runs=(1.0, 2.0))
    kept = encode(session) | {"machine_speed": {"torch 2.13": [200.0, 190.0]}}
    assert decode(Session, kept) == session
    with pytest.raises(DecodeError, match="unknown field 'machine_speeds'"):
        decode(Session, encode(session) | {"machine_speeds": {}})
