"""No answer, and a replica that is killed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.balancer import Balancer
from tests.replicas.conftest import a, b, of_many_tests, url
from tests.replicas.served import Two, stream_of
from tests.support.browser import moments
from tests.support.dashboards import stall, wall_ms
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.browser.conftest import Visiting
    from tests.support.processes import ServeProcess
    from tests.support.served import Served

__all__ = ["a", "b", "of_many_tests", "url"]


def test_no_answer_is_said_with_the_age_of_what_is_shown(visiting: Visiting, empty: Served) -> None:
    """What was known stays, and the page goes on once there are answers."""
    stall(empty, "cargo")
    visit = visiting(empty.url)
    expect(visit.open_stream("cargo")).to_contain_text("lima")
    empty.stop()
    alert = visit.alert.filter(has_text="No answer from the controller")
    expect(alert).to_contain_text(re.compile(r"\d+\s*(s|sec|min)"))
    expect(visit.region("Why")).to_contain_text("lima")
    empty.start()

    expect(alert).to_have_count(0)


def test_a_controller_that_hangs_is_no_answer_either(visiting: Visiting, empty: Served) -> None:
    """A request without an answer is given up."""
    stall(empty, "cargo")
    visit = visiting(empty.url)
    expect(visit.open_stream("cargo")).to_contain_text("lima")
    visit.page.route(re.compile("/v1/"), lambda _: None)

    alert = visit.alert.filter(has_text="No answer from the controller")
    expect(alert).to_be_visible(timeout=20_000)
    visit.page.unroute_all(behavior="ignoreErrors")


def test_an_answer_of_somebody_else_is_none(visiting: Visiting, empty: Served) -> None:
    """A page that a proxy shows in place of the answer."""
    stall(empty, "cargo")
    visit = visiting(empty.url)
    expect(visit.open_stream("cargo")).to_contain_text("lima")
    visit.page.route(
        re.compile("/v1/"), lambda route: route.fulfill(body="<html>welcome to the hotel</html>")
    )

    expect(visit.alert).to_contain_text("is not a noted-time controller")
    expect(visit.region("Why")).to_contain_text("lima")


def test_the_page_goes_on_when_a_replica_is_killed(
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

        expect(why).to_contain_text("mike", timeout=30_000)
        expect(visit.alert.filter(has_text="No answer")).to_have_count(0)
        eventually(lambda: at.without in moments(visit.page.locator("main")), expected=True)


def test_each_replica_lists_all_streams(
    visiting: Visiting, a: ServeProcess, b: ServeProcess
) -> None:
    """It asks the other for those that it does not own."""
    names = [stream_of(a), stream_of(b)]
    for name in names:
        stall(a, name)
    for replica in (a, b):
        visit = visiting(replica.url)
        visit.open()

        expect(visit.rows("Streams").filter(has_text=re.compile("3 live"))).to_have_count(2)
