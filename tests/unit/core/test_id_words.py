"""Words of ids: readable, stable, and two of one id are found."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.id_words import CaseId, option_word, parameter_words

KEYS: dict[str, Any] = {
    "suite": "gpt", "workload": "m:f", "layout": "1n8g", "batch_size_per_device": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("seq", 4096, "seq4096"),
        ("lr", 0.1, "lr0.1"),
        ("lr", 1e-05, "lr1e-05"),
        ("shift", -1, "shift-1"),
        ("tp2", 4, "tp2_4"),
        ("attn", "flash", "attn_flash"),
        ("compile", True, "compile"),
        ("compile", False, ""),
    ],
)
def test_the_word_of_an_option(name: str, value: Any, word: str):
    assert option_word(name, value) == word


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("a b", 1, "option 'a b' is part of ids"),
        ("attn", "a/b", "option attn: 'a/b' is part of ids.*a short name"),
        ("attn", "", "option attn: '' is part"),
        ("lr", float("nan"), "option lr: nan is part of ids: give a finite number"),
    ],
)
def test_what_can_be_no_word(name: str, value: Any, words: str):
    with pytest.raises(UsageError, match=words):
        option_word(name, value)
    with pytest.raises(UsageError, match=words):
        expand(**KEYS, options={name: [value]})


def test_lists_are_axes_and_the_rest_is_as_before():
    plain = expand(**KEYS, options={"seq": 64, "res": "a b"})
    assert [case.id for case in plain] == ["gpt-torch-fp32-bs8-1n8g"]
    assert plain[0].options == (("res", "a b"), ("seq", 64))
    cases = expand(**KEYS, options={"seq": [64, 128], "compile": [False, True], "depth": 2})
    assert [case.id for case in cases] == [
        "gpt-torch-fp32-bs8-seq64-1n8g",
        "gpt-torch-fp32-bs8-seq64-compile-1n8g",
        "gpt-torch-fp32-bs8-seq128-1n8g",
        "gpt-torch-fp32-bs8-seq128-compile-1n8g",
    ]
    assert cases[1].options == (("compile", True), ("depth", 2), ("seq", 64))
    assert cases[1].id_without_layout == "gpt-torch-fp32-bs8-seq64-compile"


def test_two_by_two_by_two_are_eight():
    options = {"seq": [64, 128], "attn": ["flash", "math"], "compile": [True, False]}
    assert len({case.id for case in expand(**KEYS, options=options)}) == 8


def test_an_id_with_axes_is_taken_apart():
    [case] = expand(**KEYS, options={"lr": [1e-05], "compile": [True]})
    parts = CaseId.parse(case.id)
    assert parts == CaseId.of(case)
    assert (parts.axes, str(parts.layout)) == ("lr1e-05-compile", "1n8g")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"options": {"seq": []}}, "option seq is an empty list"),
        ({"options": {"seq": [1, 1]}}, "option seq has 1 twice"),
        ({"options": {"seq": [1, None]}}, "give a mapping of names to texts and finite numbers"),
        ({"options": {"share": float("nan")}}, "give a mapping of names to texts and finite"),
        ({"options": {"seq": {"a": 1}}}, "give a mapping"),
        ({"options": ["seq"]}, "give a mapping"),
        ({"options": {"seq": [1, 2]}, "work": 64}, "option seq is a list of numbers, by which"),
        ({"axes": ["a"]}, "unknown key 'axes'"),
    ],
)
def test_what_cannot_be_meant(keys: dict[str, Any], words: str):
    with pytest.raises(UsageError, match=words):
        expand(**KEYS, **keys)


def test_work_that_truth_values_do_not_change():
    assert len(expand(**KEYS, options={"compile": [True, False]}, work=64)) == 2


def test_an_axis_of_a_program_is_a_word_of_its_command():
    keys = {**KEYS, "command": ["python", "x.py", "--seq={seq}", "{other}"], "unit": "samples"}
    del keys["workload"]
    cases = expand(**keys, options={"seq": [64, 128]})
    assert [case.command_line()[2:] for case in cases] == [
        ("--seq=64", "{other}"), ("--seq=128", "{other}"),
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"no word of the command has \{depth\}"):
        expand(**keys, options={"depth": [1, 2]})


@pytest.mark.parametrize(
    ("parameters", "ids", "words"),
    [
        ({"tp": 1}, "1", ("tp1",)),
        ({"tp": 2, "attn": "flash"}, "2-flash", ("tp2", "attn_flash")),
        ({"compile": True}, "True", ("compile",)),
        ({"compile": False}, "False", ()),
        ({"tp": 1}, "one", ("one",)),
        ({"config": object()}, "config0", ("config0",)),
        ({"path": "a/b c"}, "a/b c", ("a_b_c",)),
        ({"shift": -1, "of": object()}, "-1-of0", ("_-1-of0",)),
    ],
)
def test_what_a_test_is_parametrized_with(
    parameters: dict[str, Any], ids: str, words: tuple[str, ...]
):
    assert parameter_words(parameters, ids) == words
