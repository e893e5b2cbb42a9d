"""Changes by an operator: each has a dry run, and a reason that is kept."""

import re
from typing import NamedTuple

import pytest
from playwright.sync_api import Route, expect

from demo.trials.browser import Dialog, Visit, moments
from demo.trials.calls import Calls
from demo.trials.dashboards import MINUTE_MS, Stalled
from demo.trials.waiting import eventually

WHY = "the depot burnt down"
CUT = "Where may readers begin?"


def open_dialog(visit: Visit, stream: str, button: str) -> Dialog:
    """Open a stream and one of its dialogs."""
    visit.open_stream(stream)
    visit.button(button).click()
    return visit.dialog()


def test_removal_does_what_its_dry_run_shows(visit: Visit, seed: Calls, stuck: Stalled) -> None:
    """The dry run has the watermark before and after, and the ledger has the reason."""
    dialog = open_dialog(visit, stuck.name, "Remove lima…").wait_for_dry_run()
    shown = set(moments(dialog.dry_run))
    dialog.act("Remove", WHY)
    expect(visit.status).to_contain_text("lima")
    expect(dialog.element).to_be_hidden()

    change = seed.get(f"{stuck.name}/changes")["changes"][0]
    done = (change["action"], change["writer"], change["comment"])
    went = {stuck.held_at, seed.lower(stuck.name)}
    assert (shown, done) == (went, ("removed", "lima", WHY))


def test_writer_that_noted_meanwhile_needs_a_second_press(
    visit: Visit, seed: Calls, stuck: Stalled
) -> None:
    """The dialog shows a new dry run, and the next press removes the writer."""
    dialog = open_dialog(visit, stuck.name, "Remove lima…").wait_for_dry_run()
    between = stuck.held_at + 9 * MINUTE_MS

    def note_first(route: Route) -> None:
        if route.request.method == "DELETE" and seed.lower(stuck.name) < between:
            note = {"writer": "lima", "time": between, "position": {"0": 200}}
            seed.post(stuck.name, note)
        route.continue_()

    visit.page.route(re.compile("/writers/lima"), note_first)
    dialog.act("Remove", WHY)
    expect(dialog.dry_run).to_contain_text("lima has noted meanwhile")
    expect(dialog.dry_run).to_contain_text(f"{stuck.name} advances")
    expect(dialog.why).to_have_value(WHY)
    before = seed.get(f"{stuck.name}/writers/lima")["state"]
    dialog.press("Remove")
    expect(dialog.element).to_be_hidden()

    after = seed.get(f"{stuck.name}/writers/lima")["state"]
    assert (before, after) == ("live", "excluded")


def test_hold_lasts_until_the_shown_time_or_its_end(
    visit: Visit, seed: Calls, stuck: Stalled
) -> None:
    """The row of the writer has the reason, and the change that ends the hold has another."""
    path = f"{stuck.name}/writers/lima"
    dialog = open_dialog(visit, stuck.name, "Hold lima…").wait_for_dry_run()
    shown = moments(dialog.dry_run)
    dialog.act("Hold", WHY)
    row = visit.page.locator('tr[data-key="lima"]')
    expect(row).to_contain_text("held by an operator until")
    expect(row).to_contain_text(WHY)
    until = seed.get(path)["held_until"]
    visit.button("End the hold of lima").click()
    dialog = visit.dialog("End the hold of lima").wait_for_dry_run()
    expect(dialog.dry_run).to_contain_text("127.0.0.1 holds lima until")
    dialog.act("End hold", "rebuilt")
    expect(visit.status).to_contain_text("The timeout of lima applies again.")

    change = seed.get(f"{stuck.name}/changes")["changes"][0]
    assert any(abs(until - each) < MINUTE_MS for each in shown)
    assert seed.get(path)["held_until"] is None
    assert (change["action"], change["comment"]) == ("released", "rebuilt")


def test_too_long_hold_is_refused_in_the_dialog(visit: Visit, stuck: Stalled) -> None:
    """The page reads the limit from the OpenAPI document."""
    dialog = open_dialog(visit, stuck.name, "Hold lima…").wait_for_dry_run()
    dialog.element.get_by_label("For how long?").fill("91d")

    expect(dialog.dry_run).to_contain_text("Too long: a hold ends after 90d at most.")
    expect(visit.button("Hold")).to_be_disabled()
    dialog.element.get_by_label("For how long?").fill("90d")
    expect(visit.button("Hold")).to_be_enabled()


def test_dry_run_of_a_setting_stays_in_sight_with_its_button(visit: Visit, stuck: Stalled) -> None:
    """The text stays visible wherever the form is scrolled. Numbers are typed as they are shown."""
    dialog = open_dialog(visit, stuck.name, "Edit settings…")
    last = dialog.element.get_by_label("Max offset jump")
    expect(last).to_have_value("1,000,000,000,000")
    last.fill("2,000")

    expect(dialog.dry_run).to_contain_text("from 1,000,000,000,000 to 2,000.")
    for field in (dialog.element.get_by_label("Writer timeout"), last):
        field.focus()
        assert visit.is_in_sight(dialog.dry_run, visit.button("Save"), field)


class Act(NamedTuple):
    """A button of a stream, the text for its dialog, and the expected results."""

    button: str
    verb: str
    action: str
    dry_run: str
    label: str = ""
    text: str = ""


ACTS = [
    Act("Edit settings…", "Save", "settings", "from 1h to 3h.", "Writer timeout", "3h"),
    Act("Edit settings…", "Save", "settings", "5 marks of default would", "Mark retention", "0s"),
    Act("Truncate…", "Truncate", "truncated", "4 marks of default would", CUT, "0:104 1:900 2:900"),
    Act("Seal…", "Seal", "sealed", "This cannot be undone"),
]


@pytest.mark.parametrize("act", ACTS, ids=["timeout", "retention", "truncate", "seal"])
def test_act_has_a_dry_run_and_keeps_its_reason(
    visit: Visit, seed: Calls, stuck: Stalled, act: Act
) -> None:
    for step in range(1, 6):
        note = {"writer": "lima", "time": stuck.held_at + step, "position": {"0": 100 + step}}
        seed.post(stuck.name, note)
    dialog = open_dialog(visit, stuck.name, act.button)
    if act.label:
        dialog.element.get_by_label(act.label).fill(act.text)
    expect(dialog.dry_run).to_contain_text(act.dry_run)
    dialog.act(act.verb, WHY)
    expect(dialog.element).to_be_hidden()
    change = seed.get(f"{stuck.name}/changes")["changes"][0]

    assert (change["action"], change["comment"]) == (act.action, WHY)
    expect(visit.button("Seal…")).to_have_count(int(act.action != "sealed"))
    if act.label == "Writer timeout":
        visit.button("Undo").click()
        eventually(lambda: seed.get(stuck.name)["writer_timeout_ms"], expected=60 * MINUTE_MS)
    else:
        expect(visit.button("Undo")).to_have_count(0)


def test_refused_change_is_reported_and_keeps_typed_text(
    visit: Visit, seed: Calls, stuck: Stalled
) -> None:
    """The stream may have been removed in between, for example."""
    dialog = open_dialog(visit, stuck.name, "Remove lima…").wait_for_dry_run()
    dialog.why.fill(WHY)
    refused = {"status": 409, "code": "conflict", "title": "Conflict", "detail": "send it again"}
    visit.page.route(
        re.compile("/writers/lima"), lambda route: route.fulfill(status=409, json=refused)
    )
    dialog.press("Remove")

    expect(visit.alert.filter(has_text="send it again").first).to_be_visible()
    expect(dialog.why).to_have_value(WHY)
    assert seed.get(f"{stuck.name}/writers/lima")["state"] == "live"


def test_dialog_without_a_reason_or_left_changes_nothing(
    visit: Visit, seed: Calls, stuck: Stalled
) -> None:
    """The dialog stays open and points to the missing reason."""
    dialog = open_dialog(visit, stuck.name, "Remove lima…").wait_for_dry_run()
    dialog.press("Remove")
    expect(dialog.why).to_be_focused()
    dialog.press("Cancel")

    expect(dialog.element).to_be_hidden()
    assert seed.get(f"{stuck.name}/writers/lima")["state"] == "live"
