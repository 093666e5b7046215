"""The pytest plugin. Every hook hands over at once.

Nothing but pytest and one small module is imported here at the top: a pytest run without a perf
case pays for these and the declaration of its options, and for nothing else. What pytest calls for
every test is in plugins of their own, which are taken out where a collection found no perf case.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_dlperf.session.byte_code import load_as_installed

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pytest_dlperf.session.fixture import Dlperf
    from pytest_dlperf.session.measurer import Measurer
    from pytest_dlperf.session.reporter import Reporter
    from pytest_dlperf.session.session import Session

load_as_installed()

_SESSION: pytest.StashKey[Session] = pytest.StashKey()
_MEASURER: pytest.StashKey[Measurer] = pytest.StashKey()
_REPORTER: pytest.StashKey[Reporter] = pytest.StashKey()
_PARSER: pytest.StashKey[pytest.Parser] = pytest.StashKey()
_DECLARED: pytest.StashKey[bool] = pytest.StashKey()
_IN_CALL: pytest.StashKey[bool] = pytest.StashKey()
#: What our options are where nobody gives them.
_NOT_GIVEN: tuple[object, ...] = (None, False, [], "gate")
#: Names of the plugins that pytest calls for every test.
_MARKER, _RECEIVER = "dlperf-marker", "dlperf-report-receiver"


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare our own hooks."""
    from pytest_dlperf.session import options

    pluginmanager.add_hookspecs(options)
    # Here, and not at the first perf case: wrappers of conftests must stay outside of ours.
    pluginmanager.register(_Marker(), _MARKER)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare our options, where one may have been given."""
    from pytest_dlperf.session import options

    config: Any = pluginmanager.get_plugin("pytestconfig")
    config.stash[_DECLARED] = options.declare(parser, config)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, Any, Any]:
    """Rewrite ``--gpus``, ``--cpus``, ``--update-baselines`` once all conftests are loaded."""
    result = yield
    from pytest_dlperf.session import options

    early_config.stash[_PARSER] = parser
    if options.may_be_given(args):
        # A plugin may have added one to what was given.
        if not early_config.stash[_DECLARED]:
            options.add_options(parser)
        options.rewrite_short(args, _owned(early_config))
    return result


def _owned(config: pytest.Config) -> tuple[str, ...]:
    """Return our short options that a conftest or another plugin declared."""
    if _PARSER not in config.stash:
        return ()
    from pytest_dlperf.session import options, pytest_private

    declared = pytest_private.declared_names(config.stash[_PARSER])
    return tuple(name for name in options.SHORT_OPTIONS if name in declared)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Run sessions of a self-test in place of this one, where that was asked for."""
    if config.option.dlperf_selftest is None:
        return None
    from pytest_dlperf.session import selftest

    return selftest.run(config)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "dlperf(workload, **case): a training whose speed is measured and judged"
    )
    _register(config)
    if _has_our_option(config) or _has_our_setting(config):
        # Here, so that what cannot be meant is one line and no traceback of the collection.
        _session(config).check_usage()


def _register(config: pytest.Config) -> None:
    """Have pytest call us for every test, if it does not yet."""
    plugins = config.pluginmanager
    if not plugins.has_plugin(_MARKER):
        plugins.register(_Marker(), _MARKER)
    if not plugins.has_plugin(_RECEIVER):
        plugins.register(_Receiver(config), _RECEIVER)


def _session(config: pytest.Config) -> Session:
    if _SESSION not in config.stash:
        from pytest_dlperf.session.session import Session

        session = config.stash[_SESSION] = Session.from_config(config)
        # An earlier collection of this pytest may have found no perf case.
        _register(config)
        if session.process.is_worker:  # its reports go to the process with the terminal
            config.pluginmanager.unregister(name=_RECEIVER)
    return config.stash[_SESSION]


def _measurer(config: pytest.Config) -> Measurer:
    """Return what measures: in a process that runs tests."""
    if _MEASURER not in config.stash:
        from pytest_dlperf.session.measurer import Measurer

        config.stash[_MEASURER] = Measurer(_session(config))
    return config.stash[_MEASURER]


def _reporter(config: pytest.Config) -> Reporter:
    """Return what reports: in the process that has the terminal."""
    if _REPORTER not in config.stash:
        from pytest_dlperf.session.reporter import Reporter

        config.stash[_REPORTER] = Reporter(config, _session(config))
    return config.stash[_REPORTER]


def _has_our_option(config: pytest.Config) -> bool:
    """Whether an option of ours was given, an empty text as well."""
    return any(
        value not in _NOT_GIVEN
        for name, value in vars(config.option).items()
        if name.startswith("dlperf_")
    )


def _has_our_setting(config: pytest.Config) -> bool:
    """Whether the ini file or the environment says something that may be wrong."""
    names = ("dlperf_fail_on", "dlperf_machine_class")
    return "DLPERF_MACHINE_CLASS" in os.environ or any(config.getini(name) for name in names)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say how perf cases will run, if an option speaks of them."""
    if not _has_our_option(config):
        return []
    from pytest_dlperf.session.terminal import header

    return header.header(config, _session(config), _owned(config))


def pytest_report_collectionfinish(
    config: pytest.Config, items: Sequence[pytest.Item]
) -> list[str]:
    """Say what was left out, if there are perf cases; how they run, if the header did not."""
    if _SESSION not in config.stash:
        return []
    from pytest_dlperf.session.terminal import header

    return header.collected(config, _session(config), _owned(config), items)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make an item of every case of a marked test."""
    if metafunc.definition.get_closest_marker("dlperf") is not None:
        from pytest_dlperf.session import collection

        collection.parametrize(metafunc, _session(metafunc.config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take what pytest's parametrize gives perf tests; deselect cases that do not run here.

    First of all, so that pytest's own ``-k`` comes after it and finds the final ids.
    """
    if _SESSION in config.stash:
        from pytest_dlperf.session import collection

        session = _session(config)
        for item in items:
            collection.take_parameters(item, session)
        collection.deselect(config, items, session)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Under --dlperf-strict, fail a file or folder of perf tests that is skipped as a whole."""
    report = yield
    if report.skipped and collector.config.option.dlperf_strict:
        from pytest_dlperf.session import no_case

        no_case.refuse_skipped(collector, report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Remember which cases are to run; without any, have pytest call us for no test.

    The controller of pytest-xdist collects nothing, so that it is called for every report.
    """
    config = session.config
    if _is_marked(session.items):
        from pytest_dlperf.session import no_case

        no_case.report(session)
    if _SESSION in config.stash:
        from pytest_dlperf.session import collection

        collection.remember(session.items, _session(config))
        _plan(session)
    elif not _has_our_option(config):
        for name in (_MARKER, _RECEIVER):
            if config.pluginmanager.has_plugin(name):
                config.pluginmanager.unregister(name=name)


def _is_marked(items: Sequence[pytest.Item]) -> bool:
    """Whether an item has our marker, by itself or by its class, module or package.

    Each node is looked at once: every pytest run pays for it.
    """
    if any(mark.name == "dlperf" for item in items for mark in item.own_markers):
        return True
    owners = {id(item.parent): item.parent for item in items}
    return any(owner and owner.get_closest_marker("dlperf") for owner in owners.values())


def _runs_no_test(config: pytest.Config) -> bool:
    """Whether pytest was asked to collect alone, or to set up what no test then uses."""
    options = config.option
    return bool(options.collectonly or options.setuponly or options.setupplan)


def _plan(session: pytest.Session) -> None:
    """Get ready for the end of a session that runs perf cases, by a signal or by Ctrl-C."""
    from pytest_dlperf.session import case_record

    config, perf = session.config, _session(session.config)
    if perf.settings.runs_nothing or _runs_no_test(config):
        return
    planned = case_record.planned_tests(session.items)
    if not planned:
        return
    perf.records.plan(planned)
    perf.ending.install(config)
    if perf.process.is_worker:
        perf.records.to_announce(planned)
        case_record.keep_planned(planned, perf.resources.folder)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Print instead of run, where only that was asked for; else begin with runs in rounds."""
    config = session.config
    if not (config.option.dlperf_list or config.option.dlperf_dry_run):
        if _SESSION in config.stash:
            from pytest_dlperf.session import rounds

            rounds.measure_in_rounds(session, _session(config))
        return None
    from pytest_dlperf.session.terminal import dry_run

    dry_run.print_instead_of_running(session.items, _session(config), config)
    return True


def __dir__() -> list[str]:
    """Return the hooks and the fixture: pytest looks at every name of a plugin, for each run."""
    return [name for name in globals() if name.startswith("pytest_") or name == "dlperf"]


@pytest.fixture
def dlperf(request: pytest.FixtureRequest) -> Dlperf:
    """Return the case of this test: ``outcome = dlperf.run()``."""
    from pytest_dlperf.session.fixture import make_fixture

    config = request.config
    return make_fixture(request, _session(config), _measurer(config))


class _Hooks:
    """Shows pytest nothing but its hooks: it looks at every name of a plugin, for each run."""

    def __dir__(self) -> list[str]:
        return [name for name in vars(type(self)) if name.startswith("pytest_")]


class _Marker(_Hooks):
    """Puts outcomes onto test reports, and reads them there."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the outcome onto the report of a perf test."""
        report = yield
        if _SESSION in item.config.stash and not _runs_no_test(item.config):
            self._mark(report, item)
        return report

    @staticmethod
    def _mark(report: pytest.TestReport, item: pytest.Item) -> None:
        from pytest_dlperf.session.terminal import test_report

        if item.stash.get(_IN_CALL, False):
            return  # of a subtest, which has a report of its own and no case
        session = _session(item.config)
        test_report.mark_report(report, item, session, _measurer(item.config))
        if hasattr(report, test_report.CASE):
            session.records.announce(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Know which reports are made while the test still runs: those of its subtests."""
        item.stash[_IN_CALL] = True
        try:
            return (yield)
        finally:
            item.stash[_IN_CALL] = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        """Give verdicts that are neither passed nor failed a category of their own."""
        if not hasattr(report, "dlperf_outcome"):
            return None
        from pytest_dlperf.session.terminal import test_report

        return test_report.status_of(report)


class _Receiver(_Hooks):
    """Hands test reports to what reports, in the process that has the terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        #: What ended the session before its tests had ended, in words; empty if nothing did.
        self._interrupted = ""
        self._workers: list[Any] = []
        #: Whether a worker of pytest-xdist has said what it collected.
        self._has_collected = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        """Remember a worker of pytest-xdist, to end it with this process."""
        self._workers.append(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Heed signals from now on: the workers may measure for long before their first report."""
        import re

        # All workers collect the same; the id of a case ends with its layout, and parameters of
        # the test may follow it
        is_first, self._has_collected = not self._has_collected, True
        if is_first and any(re.search(r"-\d+n\d+[cg][]-]", test_id) for test_id in ids):
            from pytest_dlperf.session.process import name_of_session

            perf = _session(self._config)
            _ = perf.resources.checkout  # as it is before anything is measured
            perf.resources.folder_of_workers = name_of_session(node)
            perf.ending.install(self._config)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Say in the results which case is measured now."""
        config = self._config
        has_results = config.option.dlperf_json is not None and not _runs_no_test(config)
        if has_results and _SESSION in config.stash:
            _reporter(config).begins(nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """Hand an outcome on; signals wait until everybody has the report."""
        config = self._config
        if not hasattr(report, "dlperf_case"):
            if report.when not in ("setup", "call", "teardown") and _SESSION in config.stash:
                _reporter(config).crashed(report)
            return (yield)
        _reporter(config).receives(report)
        # Here as well: of pytest-xdist's processes the one that prints collects nothing
        ending = _session(config).ending
        ending.install(config)
        ending.hold()
        try:
            result = yield
            _reporter(config).take(report)
        finally:
            ending.release()
        return result

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remember what ended the session; hand a signal on to the workers of pytest-xdist."""
        if _SESSION not in self._config.stash:
            return
        asked = _session(self._config).ending.asked
        if asked is not None:
            from pytest_dlperf.session import pytest_private

            self._interrupted = f"{asked.name} ended the session"
            for node in self._workers:
                pytest_private.terminate(node)
        elif not isinstance(excinfo.value, pytest.Session.Interrupted):
            # The other is of -x, which the session's end tells, and of errors of the collection
            self._interrupted = "the session was interrupted"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the results; fail a session that measured nothing."""
        config = self._config
        if _SESSION in config.stash:
            self._end_early(session)
        options = config.option
        only_prints = options.dlperf_list or options.dlperf_dry_run or _runs_no_test(config)
        reports = _session(config).settings.reports if _has_our_option(config) else {}
        wants_results = (reports or options.dlperf_from_logs) and not only_prints
        if wants_results or _REPORTER in config.stash:
            _reporter(config).finish(session)

    def _end_early(self, session: pytest.Session) -> None:
        perf = _session(self._config)
        perf.ending.report()
        if perf.ending.asked is not None:
            session.exitstatus = perf.ending.exit_code
        has_cases = perf.records.planned or perf.resources.folder_of_workers
        stopped = session.shouldfail or session.shouldstop
        why = ""
        if self._interrupted:
            why = f"{self._interrupted} before its end"
        elif stopped:
            why = f"the session ended before its test ({stopped})"
        elif session.exitstatus == pytest.ExitCode.OK:
            why = "its test was never reported, so that a plugin or a conftest has left it out"
        if why and (has_cases or _REPORTER in self._config.stash):
            _reporter(self._config).report_unreached(why)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the summary."""
        if _REPORTER in self._config.stash:
            _reporter(self._config).write_summary(terminalreporter)
