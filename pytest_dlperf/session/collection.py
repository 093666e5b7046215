"""Collection: each case becomes a pytest item; cases that do not run here are deselected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_dlperf.cases.marker import cases_of
from pytest_dlperf.cases.selection import (
    CaseRequest,
    Machine,
    Selected,
    fits,
    select,
    without_bf16,
)
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import DlperfError, UsageError
from pytest_dlperf.core.id_words import parameter_words
from pytest_dlperf.core.quantity import is_number
from pytest_dlperf.launch.launchers import LAUNCHERS
from pytest_dlperf.measure.logs import registry as log_formats
from pytest_dlperf.report.printable import shown
from pytest_dlperf.session import case_ids, no_case
from pytest_dlperf.session.case_ids import parametrized
from pytest_dlperf.session.case_items import NAME, selected_of, set_selected
from pytest_dlperf.session.exits import usage_error
from pytest_dlperf.session.pytest_private import is_matched
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.store.history import notes

if TYPE_CHECKING:
    from pytest_dlperf.session.session import Session


def left_out(item: pytest.Item, case: Case, session: Session, machine: Machine) -> str:
    """Return why ``case``, which ``item`` runs, is left out on ``machine``; empty if it is not.

    It is wanted where it was asked for by name, and where a baseline of it is stored.
    """
    reason = without_bf16(case, machine)
    if not reason or is_asked_for(item, case, session) or _is_stored(case, session):
        return ""
    return reason


def is_asked_for(item: pytest.Item, case: Case, session: Session) -> bool:
    """Return whether the precision of ``case`` was named: by an option, ``-k`` or a node id.

    ``-k`` names it where the test is selected by that word alone: neither ``-k tsm`` nor
    ``-k "not (tsm and bf16)"`` does.
    """
    if case.precision in (session.settings.precisions or ()):
        return True
    config = item.config
    name = item.nodeid.partition("::")[2]
    # A folder may be written in many ways, and the rest has the case's id without what the test
    # is parametrized with, which is one test's.
    named = f"-{case.precision}-" in name.partition("[")[2]
    if named and any(a.partition("::")[2] == name for a in map(str, config.args)):
        return True
    expression = config.option.keyword.strip()
    return (
        bool(expression)
        and is_matched(item, expression)
        and not is_matched(item, expression, without=case.precision)
    )


def _is_stored(case: Case, session: Session) -> bool:
    """Return whether this machine class has a measured baseline of ``case``."""
    machine_class = session.settings.machine_class or session.resources.devices.machine_class(
        "cpu"
    )
    try:
        return session.resources.store.find(machine_class, case.suite, case.id) is not None
    except DlperfError:
        return True  # a broken file is still a baseline; its error is shown when it is used


def parametrize(metafunc: pytest.Metafunc, session: Session) -> None:
    """Make one item for every case that the test's markers declare or the options ask for."""
    try:
        selected = _selected(metafunc, session)
    except UsageError as error:
        text = shown(f"{metafunc.definition.nodeid}: {error}")
        raise pytest.fail.Exception(text, pytrace=False) from None  # else pytest prints it twice
    metafunc.parametrize(NAME, selected, indirect=True, ids=[s.case.id for s in selected])


def take_parameters(item: pytest.Item, session: Session) -> None:
    """Take what pytest's parametrize gives a perf item into its case: options, and its id.

    ``-k`` finds the item by its case's id as well. A fixture's own parameters are not taken:
    their items are one case.
    """
    selected = selected_of(item)
    callspec: Any = getattr(item, "callspec", None)
    if selected is None:
        return
    names = parametrized(item)
    own = {name: value for name, value in callspec.params.items() if name != NAME}
    if not own or not names.issuperset(own):
        return
    case = selected.case
    before, _, after = callspec.id.partition(case.id)
    ids = "-".join(filter(None, (before.removesuffix("-"), after.removeprefix("-"))))
    options = {n: v for n, v in own.items() if isinstance(v, str | int | float | bool)}
    case = replace(
        case,
        options=tuple(sorted({**dict(case.options), **options}.items())),
        axes=(*case.axes, *parameter_words(own, ids)),
    )
    error = selected.error
    trains = session.resources.logs is None
    if not error and trains and case.work is not None and any(map(is_number, own.values())):
        error = (
            f"work={case.work} is one number, and the test is parametrized with numbers, by which "
            "the work may differ; leave work out, and let build(job) call job.work(...)"
        )
    set_selected(item, replace(selected, case=case, error=error))
    item.extra_keyword_matches.add(case.id)


def _selected(metafunc: pytest.Metafunc, session: Session) -> Sequence[Selected]:
    if refused := no_case.function_refused(metafunc.function, metafunc.fixturenames):
        raise UsageError(refused)
    markers = reversed(list(metafunc.definition.iter_markers(NAME)))
    declared = declared_by(
        [(marker.args, marker.kwargs) for marker in markers], function=metafunc.function.__name__
    )
    for name in sorted(parametrized(metafunc.definition)):
        values = {dict(case.options).get(name) for case in declared}
        if len(values) > 1:
            raise UsageError(
                f"option {name} is a list in the marker, and parametrized as well; leave one out"
            )
    settings = session.settings
    declared, unfit = as_asked(declared, settings)
    if settings.list_only:
        return [Selected(case=case) for case in declared]
    if session.resources.logs is not None:
        return [_with_log(case, session) for case in declared]
    return [
        replace(selected, error=unfit.get(selected.case.id_without_layout, selected.error))
        for selected in select(declared, request_of(session), session.resources.machine)
    ]


def declared_by(
    markers: Iterable[tuple[Sequence[Any], Mapping[str, Any]]], *, function: str
) -> list[Case]:
    """Return the cases of a test's markers, each its arguments; raise ``UsageError``."""
    declared: list[Case] = []
    for arguments, keys in markers:
        declared += cases_of(arguments, keys, function=function)
    case_ids.check_marker([case.id for case in declared])
    for case in declared:
        if case.launcher not in {"auto", *LAUNCHERS}:
            names = ", ".join(["auto", *LAUNCHERS])
            raise UsageError(f"{case.id}: unknown launcher {case.launcher!r}; known: {names}")
        if case.log_format and isinstance(case.log_format, str):
            log_formats.named(case.log_format)
    return declared


def as_asked(declared: Sequence[Case], settings: Settings) -> tuple[list[Case], dict[str, str]]:
    """Return the cases with what the command line sets of all, and why some cannot have it.

    Raises ``UsageError`` if none can.
    """
    if settings.launcher is not None and settings.launcher not in LAUNCHERS:
        names = ", ".join(LAUNCHERS)
        raise UsageError(f"--dlperf-launcher={settings.launcher}: known are {names}")
    cases, unfit = [], {}
    for declared_case in declared:
        case = declared_case
        if settings.launcher and case.launcher != "none":
            case = replace(case, launcher=settings.launcher)
        try:
            case = replace(case, protocol=settings.protocol_for(case.protocol))
        except UsageError as error:
            unfit[case.id_without_layout] = str(error)
        cases.append(case)
    if unfit and len(unfit) == len({case.id_without_layout for case in cases}):
        raise UsageError(next(iter(unfit.values())))
    return cases, unfit


def _with_log(case: Case, session: Session) -> Selected:
    """Return ``case`` for judging its log: the devices of this machine do not matter."""
    assert session.resources.logs is not None
    request = request_of(session)
    counts = request.gpus if case.layout.device == "gpu" else request.cpus
    asked = counts is not None and case.world_size in counts
    left_out = case.misfit
    if request.names_devices and not asked:
        left_out = f"{case.layout} was not asked for"
    elif request.frameworks is not None and case.framework not in request.frameworks:
        left_out = f"framework {case.framework} was not asked for"
    elif request.precisions is not None and case.precision not in request.precisions:
        left_out = f"precision {case.precision} was not asked for"
    elif request.size is not None and case.size != request.size:
        left_out = f"size {case.size} was not asked for"
    elif not left_out and not session.resources.logs.claim(case):
        left_out = f"no log under {session.resources.logs.folder}"
    return Selected(case=case, left_out=left_out)


def request_of(session: Session) -> CaseRequest:
    """Return what the command line asks for."""
    settings = session.settings
    return CaseRequest(
        gpus=settings.gpus,
        cpus=settings.cpus,
        size=settings.size,
        frameworks=settings.frameworks,
        precisions=settings.precisions,
    )


def deselect(config: pytest.Config, items: list[pytest.Item], session: Session) -> None:
    """Take the cases that do not run here out of ``items``, and count them.

    A one-node layout that does not fit although it was measured on this machine class stays,
    as an error: a device vanished. Two items with one case id are a usage error.
    """
    kept, dropped = [], []
    for item in items:
        selected = selected_of(item)
        left_out = "" if selected is None else _left_out(item, selected, session)
        if selected is None or not left_out:
            kept.append(item)
        elif _vanished(selected.case, session):
            misfit = fits(selected.case.layout, session.resources.machine)
            error = (
                f"{misfit}, but this machine class has a measured baseline of it: a device "
                "vanished; see dlperf doctor"
            )
            set_selected(item, Selected(case=selected.case, error=error))
            kept.append(item)
        else:
            dropped.append(item)
            session.records[selected.case.id].left_out = left_out
    _check_ids(kept, session)
    if session.settings.budget_s is not None:
        kept = _longest_without_a_certificate_first(kept, session.settings.workdir)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
    items[:] = kept


def _check_ids(items: Sequence[pytest.Item], session: Session) -> None:
    """Raise ``pytest.UsageError`` where cases have ids that cannot be."""
    cases = [(selected.case.id, item) for item in items if (selected := selected_of(item))]
    refused = case_ids.refused_of_items(cases)
    if refused and not session.process.is_worker:
        raise usage_error("\npytest-dlperf: ".join(refused.values()))
    # An exception would end an xdist worker without a word: its items say it instead.
    for case_id, item in cases:
        if case_id in refused:
            selected = selected_of(item)
            assert selected is not None
            set_selected(item, replace(selected, error=refused[case_id]))


def _left_out(item: pytest.Item, selected: Selected, session: Session) -> str:
    """Return why a case is left out; empty if it is not."""
    is_decided = selected.left_out or selected.error
    if is_decided or session.resources.logs is not None or session.settings.list_only:
        return selected.left_out
    return left_out(item, selected.case, session, session.resources.machine)


def _longest_without_a_certificate_first(
    items: list[pytest.Item], workdir: Path
) -> list[pytest.Item]:
    """Return the items with the perf ones in that order, on the places that perf items have."""
    certificates = notes.read_certificates(workdir)
    cases = {item: s.case.id for item in items if (s := selected_of(item)) is not None}
    ordered = iter(sorted(cases, key=lambda item: certificates.get(cases[item], "")))
    return [next(ordered) if item in cases else item for item in items]


def remember(items: Sequence[pytest.Item], session: Session) -> None:
    """Let the session know its cases: alpha is split over them where arms are compared."""
    selected = {item: case for item in items if (case := selected_of(item))}
    session.resources.case_count = len(selected)
    session.check_resumed([chosen.case for chosen in selected.values()])
    jobs = session.resources.jobs
    if jobs is not None:
        from pytest_dlperf.flow.scheduled import Planned

        jobs.selected = len(selected)
        jobs.planned = [
            Planned(case=chosen.case, node_id=item.nodeid)
            for item, chosen in selected.items()
            if not chosen.error
        ]


def _vanished(case: Case, session: Session) -> bool:
    request = request_of(session)
    if session.resources.logs is not None:
        return False
    if request.names_devices or request.size is not None or case.layout.nodes > 1:
        return False
    if request.frameworks is not None and case.framework not in request.frameworks:
        return False
    if request.precisions is not None and case.precision not in request.precisions:
        return False
    if case.layout.device == "cpu" or not fits(case.layout, session.resources.machine):
        return False
    machine_class = session.settings.machine_class or session.resources.devices.machine_class(
        "gpu", case.layout.devices_per_node
    )
    try:
        return session.resources.store.find(machine_class, case.suite, case.id) is not None
    except DlperfError:
        return True  # a broken file is still a baseline; its error is shown when it is used
