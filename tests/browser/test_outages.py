"""No answer, and a replica that is killed."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.balancer import Balancer
from tests.browser.conftest import Visiting
from tests.replicas.conftest import a, b, url
from tests.replicas.served import Two
from tests.support.browser import Visit, moments
from tests.support.dashboards import stall, wall_ms
from tests.support.processes import ServeProcess
from tests.support.served import Served
from tests.support.waiting import eventually

__all__ = ["a", "b", "url"]

CALLS = re.compile("/v1/")
NO_ANSWER = "No answer from the controller"


@pytest.fixture
def cargo(visiting: Visiting, empty: Served) -> Visit:
    """A stream that is shown, of a controller of the test's own."""
    stall(empty, "cargo")
    visit = visiting(empty.url)
    expect(visit.open_stream("cargo")).to_contain_text("lima")
    return visit


def test_a_missing_answer_is_shown_with_the_age_of_the_data(cargo: Visit, empty: Served) -> None:
    """What was known stays, and the page continues once there are answers."""
    empty.stop()
    alert = cargo.alert.filter(has_text=NO_ANSWER)
    expect(alert).to_contain_text(re.compile(r"\d+\s*(s|sec|min)"))
    expect(cargo.region("Why")).to_contain_text("lima")
    empty.start()

    expect(alert).to_have_count(0)


def test_a_controller_that_hangs_counts_as_not_answering(cargo: Visit) -> None:
    """A request without an answer is given up: here after 200 ms in place of eight seconds."""
    cargo.page.evaluate("""
        const after = AbortSignal.timeout.bind(AbortSignal);
        AbortSignal.timeout = (ms) => after(ms / 40);
    """)
    cargo.page.route(CALLS, lambda _: None)

    expect(cargo.alert.filter(has_text=NO_ANSWER)).to_be_visible()
    cargo.page.unroute_all(behavior="ignoreErrors")


def test_an_answer_that_no_controller_gives_is_reported(cargo: Visit) -> None:
    """A page that a proxy shows in place of the answer."""
    cargo.page.route(CALLS, lambda route: route.fulfill(body="<html>welcome to the hotel</html>"))

    expect(cargo.alert).to_contain_text("is not a noted-time controller")
    expect(cargo.region("Why")).to_contain_text("lima")


def test_the_page_continues_when_a_replica_is_killed(
    visiting: Visiting, a: ServeProcess, b: ServeProcess
) -> None:
    """Behind a balancer that asks them in turn: the owner of the stream dies, and another notes."""
    with Balancer(a.url, b.url) as balancer:
        at = stall(balancer, "cargo")
        visit = visiting(balancer.url)
        why = visit.open_stream("cargo")
        expect(why).to_contain_text("lima")
        Two(a, b).by_owner("cargo")[0].kill()
        noted = {"writer": "lima", "time": wall_ms(), "position": {"0": 200}}
        balancer.post("cargo", noted)

        expect(why).to_contain_text("mike")
        expect(visit.alert.filter(has_text="No answer")).to_have_count(0)
        eventually(lambda: at.without in moments(visit.page.locator("main")), expected=True)
