"""Changes by an operator, where `scenes/operators.txt` does not suffice."""

import re

from playwright.sync_api import Route, expect

from tools.trials.browser import Dialog, Visit, moments
from tools.trials.calls import Calls
from tools.trials.dashboards import MINUTE_MS, Stalled

WHY = "the depot burnt down"


def open_dialog(visit: Visit, stream: str, button: str) -> Dialog:
    """Open a stream and one of its dialogs."""
    visit.open_stream(stream)
    visit.manage()
    visit.button(button).click()
    return visit.dialog()


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


def test_hold_lasts_until_the_shown_time(visit: Visit, seed: Calls, stuck: Stalled) -> None:
    dialog = open_dialog(visit, stuck.name, "Wait longer for lima…").wait_for_dry_run()
    (shown_time,) = moments(dialog.dry_run)
    dialog.act("Wait longer", WHY)
    expect(dialog.element).to_be_hidden()

    until = seed.get(f"{stuck.name}/writers/lima")["suspension_ends_at"]
    assert abs(until - shown_time) < MINUTE_MS


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
