"""What a self-test accepts, and what its sessions are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.session import selftest_process as options
from pytest_dlperf.session.options import FLAG, OPTIONS, flags

DEFAULTS: dict[str, Any] = {
    option.name: [] if option.repeated else option.default
    for option in OPTIONS
    if option.metavar != FLAG
}
DEFAULTS |= dict.fromkeys(flags(), False)


def get(**given: object) -> Any:
    known = {**DEFAULTS, **{name.replace("_", "-"): value for name, value in given.items()}}
    return known.__getitem__


@pytest.mark.parametrize(
    ("text", "share"), [("20%", 0.2), ("0.2", 0.2), ("100%", 1.0), ("250%", 2.5)]
)
def test_a_share(text: str, share: float) -> None:
    assert options.parse(text) == share


@pytest.mark.parametrize(
    ("text", "words"),
    [("0", "nothing slower"), ("2", "write 2% instead"), ("x", "is no"), ("-5%", "0 or more")],
)
def test_no_share(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=r"--dlperf-selftest") as caught:
        options.parse(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"update_baselines": True}, "--dlperf-selftest and --update-baselines: it stores a"),
        ({"inject": ["5%"]}, "--dlperf-inject: it makes steps longer"),
        ({"against": "main"}, "--dlperf-against: its pairs are of the"),
        ({"from_logs": "logs"}, "--dlperf-from-logs: it trains"),
        ({"list": True}, "--dlperf-list: it measures"),
        ({"dry_run": True}, "--dlperf-dry-run: it measures"),
        ({"published": True}, "--dlperf-published: it judges"),
        ({"scheduler": "slurm"}, "--dlperf-scheduler: it measures on this machine"),
        ({"node_rank": "0"}, "--dlperf-node-rank: it runs several sessions"),
        ({"iterations": "60"}, "--dlperf-iterations: a baseline is stored of"),
        ({"warmup": "0"}, "--dlperf-warmup: a baseline is stored of"),
    ],
)
def test_what_contradicts_it(given: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.check(get(**given), [])
    assert words in str(caught.value)
    assert str(caught.value).endswith("leave one of them out")


@pytest.mark.parametrize(
    "name",
    ["baselines", "reason", "mode", "history", "json", "html", "md", "benchmark-json", "metrics"],
)
@pytest.mark.parametrize("form", ["--dlperf-{}=x", "--dlperf-{}"])
def test_what_it_sets_itself_may_be_said_by_ini_and_not_typed(name: str, form: str) -> None:
    given = get(**{name.replace("-", "_"): "x"})
    options.check(given, ["perf_tests"])
    with pytest.raises(UsageError, match=f"leave --dlperf-{name} out"):
        options.check(given, [form.format(name), "x"])


def test_all_that_is_named_is_an_option() -> None:
    assert {*options._CONTRADICTS, *options._SETS} <= DEFAULTS.keys()


def test_what_shapes_the_measurement_goes_along() -> None:
    along = get(
        runs="3", max_runs="5", tolerance="30%", gpus="8", cpus="2", budget="5m", strict=True,
        workdir="w", hosts="n1:8", prefix="box", share_host=True, selftest="20%",
    )  # fmt: skip
    options.check(along, ["-n2", "--dlperf-workdir=w"])


def test_ours_count_and_stay_options() -> None:
    typed = ["-k", "x", "--dlperf-selftest=5%", "--", "perf_tests"]
    words = options.with_ours(typed, ["--dlperf-selftest=off"])
    assert words == [*typed[:3], "--dlperf-selftest=off", "--", "perf_tests"]
    assert options.with_ours(["a"], ["b"]) == ["a", "b"]


def test_every_report_is_taken_out_of_the_way() -> None:
    folder = Path("/w/selftest/1")
    words = options.common(folder, "slower", get(md="comment.md", metrics="m.txt"), "slow or x")
    assert {
        "--dlperf-selftest=off",
        "--dlperf-baselines=/w/selftest/1/baselines",
        "--dlperf-workdir=/w/selftest/1",
        "--dlperf-json=/w/selftest/1/slower.json",
        "--dlperf-html=/w/selftest/1/slower.html",
        "--dlperf-md=/w/selftest/1/slower.md",
        "--dlperf-metrics=/w/selftest/1/slower.metrics",
        "-m=(slow or x) and dlperf",
    } <= set(words)
    assert not any("benchmark" in word for word in words)
    assert "-m=dlperf" in options.common(folder, "store", get(), "")
    # The short forms may be somebody else's
    every = [*words, *options.store(), *options.judged(share=0.2, by_pairs=True)]
    assert not {word.partition("=")[0] for word in every} & {"--update-baselines", "--cpus"}
    assert {"--dlperf-inject=20%", "--dlperf-against=DLPERF_ARM=unchanged"} <= set(every)
    # What was made slower on purpose needs no explanation
    assert "--dlperf-explain=never" in every
    assert "--dlperf-explain=never" not in options.judged(by_pairs=True)
