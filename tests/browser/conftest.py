from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ViewportSize

from tools.trials.browser import LAPTOP, NO_BROWSER, Visit, chromium, find_chromium
from tools.trials.calls import Calls
from tools.trials.dashboards import PLAYED_MS, PassingTime, Stalled, Story, stall
from tools.trials.served import Served

HERE = Path(__file__).parent
NUMBERS = count(1)

Visiting = Callable[..., Visit]
"""Opens a page: by default of the controller that the tests share, on a laptop.

It takes another URL, and options of the browser's context.
"""


def viewport(size: tuple[int, int]) -> ViewportSize:
    """Return a size as the browser takes it."""
    return {"width": size[0], "height": size[1]}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this directory, because it needs a browser."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.acceptance)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser that ends before other tests run an event loop."""
    if find_chromium() is None:
        pytest.skip(NO_BROWSER)
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def story_controller() -> Iterator[Served]:
    """A controller with the stream `orders` and others, which all tests share."""
    time = PassingTime(PLAYED_MS)
    with Served(clocks=time.clocks()) as running:
        Story(running, time).play()
        yield running


@pytest.fixture(scope="package")
def seed(story_controller: Served) -> Calls:
    """The client that creates streams on it."""
    return story_controller


@pytest.fixture
def stuck(seed: Calls) -> Stalled:
    """A new stream, which `lima` holds back."""
    return stall(seed, f"stalled-{next(NUMBERS)}")


@pytest.fixture(scope="package")
def laptop(browser: Browser) -> BrowserContext:
    """A context for pages without options, so that they share the browser's cache."""
    return browser.new_context(viewport=viewport(LAPTOP), locale="en-GB")


@pytest.fixture
def visiting(
    browser: Browser, laptop: BrowserContext, request: pytest.FixtureRequest
) -> Iterator[Visiting]:
    """Pages, which are checked for faults when the test ends."""
    visits: list[Visit] = []
    own_contexts: list[BrowserContext] = []

    def visit(url: str | None = None, **options: Any) -> Visit:  # noqa: ANN401 - any option
        if options:
            laptop_of_its_own = {"viewport": viewport(LAPTOP), "locale": "en-GB"}
            own_contexts.append(browser.new_context(**laptop_of_its_own | options))
        context = own_contexts[-1] if options else laptop
        visits.append(Visit(context, url or request.getfixturevalue("story_controller").url))
        return visits[-1]

    yield visit
    for each in visits:
        each.page.close()
    for context in own_contexts:
        context.close()
    for each in visits:
        each.check()


@pytest.fixture
def visit(visiting: Visiting) -> Visit:
    """A page of the shared controller."""
    return visiting()


@pytest.fixture
def empty() -> Iterator[Served]:
    """A new controller without a stream."""
    with Served() as running:
        yield running
