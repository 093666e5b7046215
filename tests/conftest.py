from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.helpers")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tests").addoption(
        "--first-parameters",
        action="store_true",
        help="of each parametrized test its first parameters alone",
    )


@pytest.hookimpl(trylast=True)  # of those that -m has left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--first-parameters"):
        return
    first_items = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
    kept_items = set(first_items.values())
    config.hook.pytest_deselected(items=[item for item in items if item not in kept_items])
    items[:] = [item for item in items if item in kept_items]
