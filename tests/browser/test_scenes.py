"""Visits of the dashboard; see `scenes/*.txt`.

A paragraph of these files has a fact, more about it, and a visit, indented. The controller has no
stream at first. In `tokens.txt` it asks for tokens. Calls of the API have the form of
`tests/support/api_acts.py`; there are more acts:

    stream cargo {"domains": ["a"]}     a new stream waits an hour for each writer; it has settings
    stall cargo                         `lima` holds it back for 65 minutes, and others continue
    stop                                the controller stops, until `start`
    zone Asia/Kabul                     the browser is in that time zone
    open /streams/cargo                 the page shows a view; `reload` loads it again
    see Why: cargo is held back at …    a part of the page has a text, where `…` is any part of it
    miss Why: behind the clock          it does not have the text
    title watermark: 10:00              its tooltip does
    count Ledger/*: 2                   the number of such parts
    manage                              the menu of actions is opened
    click Remove lima…                  a button, which may be `enabled` or `disabled`
    fill Why?: the depot burnt down     a field by its label, which then has the `value`
    tab cargo                           Tab is pressed until a link, field or button has the focus
    press Enter                         another key is; `type cargo` types a text
    focus field Why?                    a part of the page has the focus
    token read car*                     a new token of a scope, for streams, is typed in
    token nt_0123456789ab_no            another one is typed in
    revoke                              the last token is revoked

A part is one of `PLACES`, a section by its name, a `field`, `button` or `chart` by its name, a row
of a table by its number or a text in it (`Writers/lima`), a cell of its column (`Writers/1/Noted`),
or all rows (`Writers/*`). `@10:00` is a time of 2013-01-01 in Unix ms, `@now` the present less a
second, and `@later` nearly half an hour after it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Visiting
from tests.support.api_acts import read_api_act, read_time
from tests.support.gates import Guarded
from tests.support.paragraphs import read_files, read_paragraphs
from tools.trials.browser import Visit
from tools.trials.dashboards import stall, wall_ms
from tools.trials.served import Served

CONTROLS = ("remove", "suspend", "resume", "settings", "truncate", "seal")
PLACES = {
    "page": "body",
    "content": "main",
    "parts of the content": "main > *",
    "heading": "h1",
    "pulse": "#pulse",
    "hostile element": "img[src=x], .hostile, [onerror]",
    "alert": "#alert",
    "menu": ".manage",
    "status": "#status",
    "dialog": "dialog",
    "dry run": "[data-role=dry-run]",
    "conditions": "[data-role=conditions]",
    "condition": ".head .pill >> nth=0",
    "alarm": ".pill.bad >> nth=0",
    "watermark": ".why .big time",
    "last reason": ".why .said > p >> nth=-1",
    "controls": f"button:is({', '.join(f'[data-act={each}]' for each in CONTROLS)})",
}
"""Parts of the page, and their selectors."""

LATER_MS = 1_799_000

MOST_TABS = 80
FOCUSED_NAME = (
    "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"
)
SEPARATORS = dict.fromkeys(("stream", "token"), " ")
SEPARATORS |= dict.fromkeys(("see", "miss", "title", "count", "fill", "value"), ": ")
"""What stands between the two parts of an act."""


@dataclass
class Scene:
    """A visit of a controller's page, with a method for each verb."""

    served: Served
    tokens: Guarded
    visiting: Visiting
    visit: Visit
    last_token: str = ""

    def perform(self, act: str) -> None:
        """Perform an act, or check the page."""
        api_act = read_api_act(act)
        if api_act is not None:
            api_act.check(api_act.ask(self.served))
            return
        verb, _, rest = act.partition(" ")
        parts = rest.split(SEPARATORS[verb], 1) if verb in SEPARATORS else [rest]
        getattr(self, verb)(*filter(None, parts))

    def stream(self, name: str, settings: str = "{}") -> None:
        self.served.make(name, **json.loads(settings))

    def stall(self, stream: str) -> None:
        stall(self.served, stream)

    def stop(self) -> None:
        self.served.stop()

    def start(self) -> None:
        self.served.start()

    def token(self, scope: str, streams: str = "") -> None:
        is_new = not scope.startswith("nt_")
        self.last_token = self.tokens.token(scope, streams=streams.split()) if is_new else scope
        self.visit.show_token(self.last_token)

    def revoke(self) -> None:
        self.tokens.revoke(self.last_token)

    def zone(self, name: str) -> None:
        self.visit = self.visiting(self.served.url, timezone_id=name)

    def open(self, view: str) -> None:
        self.visit.open(view)

    def reload(self) -> None:
        self.visit.page.reload()

    def see(self, place: str, text: str) -> None:
        expect(self.find(place)).to_contain_text(make_pattern(text))

    def miss(self, place: str, text: str) -> None:
        expect(self.find(place)).not_to_contain_text(make_pattern(text))

    def title(self, place: str, text: str) -> None:
        expect(self.find(place)).to_have_attribute("title", make_pattern(text))

    def count(self, place: str, number: str) -> None:
        expect(self.find(place)).to_have_count(int(number))

    def manage(self) -> None:
        self.visit.manage()

    def click(self, button: str) -> None:
        self.visit.button(button).click()

    def enabled(self, button: str) -> None:
        expect(self.visit.button(button)).to_be_enabled()

    def disabled(self, button: str) -> None:
        expect(self.visit.button(button)).to_be_disabled()

    def fill(self, label: str, text: str) -> None:
        self.visit.page.get_by_label(label, exact=True).fill(text)

    def value(self, label: str, text: str) -> None:
        expect(self.visit.page.get_by_label(label, exact=True)).to_have_value(text)

    def focus(self, place: str) -> None:
        expect(self.find(place)).to_be_focused()

    def press(self, key: str) -> None:
        self.visit.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.visit.page.keyboard.type(text)

    def tab(self, name: str) -> None:
        """Press Tab until the link, field or button of that name has the focus."""
        for _ in range(MOST_TABS):
            self.press("Tab")
            if (self.visit.page.evaluate(FOCUSED_NAME) or "").strip() == name:
                return
        raise AssertionError(f"{name} is not reached by the keyboard")

    def find(self, place: str) -> Locator:
        name, *cell = place.split("/")
        if place in PLACES:
            return self.visit.page.locator(PLACES[place])
        if name.startswith("field "):
            return self.visit.page.get_by_label(name[6:], exact=True)
        if name.startswith("button "):
            return self.visit.page.get_by_role("button", name=name[7:])
        if name.startswith("chart "):
            return self.visit.page.get_by_role("img", name=name[6:])
        return self.find_cell(name, *cell) if cell else self.visit.region(name)

    def find_cell(self, table: str, row: str, column: str = "") -> Locator:
        """Return the cell of a column, or the whole row."""
        rows = self.visit.rows(table)
        if row != "*":
            rows = rows.nth(int(row) - 1) if row.isdigit() else rows.filter(has_text=row)
        return rows.locator(f"[data-label='{column}']") if column else rows


def make_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a text, where `…` stands for any part."""
    parts = [re.escape(part) for part in text.split("…")]
    return re.compile(".*".join(parts))


def read_act(act: str) -> str:
    """Return an act in one line, with its times as numbers."""
    now = wall_ms() - 1000
    line = " ".join(act.split()).replace("@now", str(now)).replace("@later", str(now + LATER_MS))
    return re.sub(r"@(\d[\d:.TZ-]*)", lambda match: str(read_time(match[1])), line)


@pytest.fixture(scope="module")
def tokens() -> Guarded:
    """Tokens of the controller that asks for them."""
    return Guarded()


@pytest.fixture(scope="module")
def token_controller(tokens: Guarded) -> Iterator[Served]:
    """A controller that asks for tokens."""
    with Served(gate=tokens.gate) as running:
        running.token = tokens.token("admin")
        yield running


def show_scene(acts: list[str], served: Served, tokens: Guarded, visiting: Visiting) -> None:
    """Perform the acts on a controller without a stream."""
    for stream in served.ask("GET", "/streams").json()["streams"]:
        served.call("DELETE", f"/{stream['name']}")
    scene = Scene(served, tokens, visiting, visiting(served.url))
    for act in acts:
        scene.perform(read_act(act))


SCENES = Path(__file__).parent / "scenes"
WITHOUT_TOKENS = [SCENES / "operators.txt", SCENES / "streams.txt"]


@pytest.mark.parametrize("acts", read_files(WITHOUT_TOKENS))
def test_scenes(served: Served, visiting: Visiting, acts: list[str]) -> None:
    """Each page shows what its file says."""
    show_scene(acts, served, Guarded(), visiting)


@pytest.mark.parametrize("acts", read_paragraphs(SCENES / "tokens.txt"))
def test_scenes_with_tokens(
    token_controller: Served, tokens: Guarded, visiting: Visiting, acts: list[str]
) -> None:
    show_scene(acts, token_controller, tokens, visiting)
