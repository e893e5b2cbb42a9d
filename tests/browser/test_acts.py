"""What an operator does: shown as a dry run first, and then done so."""

import re

from playwright.sync_api import Route, expect

from demo.trials.browser import Dialog, Visit, moments
from demo.trials.calls import Calls
from demo.trials.dashboards import MINUTE_MS, Stalled
from demo.trials.waiting import eventually

WHY = "the depot burnt down"


def open_dialog(visit: Visit, stream: str, button: str) -> Dialog:
    """Open a stream and one of its dialogs."""
    visit.open_stream(stream)
    visit.button(button).click()
    return visit.dialog()


def test_removal_does_what_its_dry_run_shows(visit: Visit, seed: Calls, stuck: Stalled) -> None:
    """From where to where the watermark goes, and the reason that is kept."""
    dialog = open_dialog(visit, stuck.name, "Remove lima…").shown()
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
    """The dry run is repeated, and its result is what another press removes."""
    dialog = open_dialog(visit, stuck.name, "Remove lima…").shown()
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


def test_hold_is_placed_and_taken_back(visit: Visit, seed: Calls, stuck: Stalled) -> None:
    """Until the moment that was shown; Undo releases the writer."""
    dialog = open_dialog(visit, stuck.name, "Hold lima…").shown()
    shown = moments(dialog.dry_run)
    dialog.act("Hold", WHY)
    expect(visit.status).to_contain_text("lima")
    row = visit.page.locator('tr[data-key="lima"]')
    expect(row).to_contain_text("held by an operator until")
    expect(row).to_contain_text(WHY)
    until = seed.get(f"{stuck.name}/writers/lima")["held_until"]
    visit.button("Undo").click()

    path = f"{stuck.name}/writers/lima"
    eventually(lambda: seed.get(path)["held_until"], expected=None)
    assert any(abs(until - each) < MINUTE_MS for each in shown)


def test_end_of_a_hold_has_a_reason(visit: Visit, seed: Calls, stuck: Stalled) -> None:
    """The dialog says who holds the writer, and the reason is kept beside the change."""
    path = f"{stuck.name}/writers/lima"
    seed.call("POST", f"/{path}/hold", {"for_ms": 10 * MINUTE_MS})
    dialog = open_dialog(visit, stuck.name, "End the hold of lima").shown()
    expect(dialog.dry_run).to_contain_text("127.0.0.1 holds lima until")
    dialog.act("End hold", WHY)
    expect(visit.status).to_contain_text("The timeout of lima applies again.")
    change = seed.get(f"{stuck.name}/changes")["changes"][0]

    assert seed.get(path)["held_until"] is None
    assert (change["action"], change["comment"]) == ("released", WHY)


def test_too_long_hold_is_refused_in_the_dialog(visit: Visit, stuck: Stalled) -> None:
    """The page knows the limit from the controller's document."""
    dialog = open_dialog(visit, stuck.name, "Hold lima…").shown()
    dialog.element.get_by_label("For how long?").fill("91d")

    expect(dialog.dry_run).to_contain_text("Too long: a hold ends after 90d at most.")
    expect(visit.button("Hold")).to_be_disabled()
    dialog.element.get_by_label("For how long?").fill("90d")
    expect(visit.button("Hold")).to_be_enabled()


def test_setting_is_changed_and_put_back(visit: Visit, seed: Calls, stuck: Stalled) -> None:
    """The timeout of writers; the reason is kept beside it."""
    dialog = open_dialog(visit, stuck.name, "Edit settings…")
    dialog.element.get_by_label(re.compile("writer timeout", re.IGNORECASE)).fill("3h")
    expect(dialog.dry_run).to_contain_text("3")
    dialog.act("Save", WHY)
    expect(visit.button("Undo")).to_be_visible()
    change = seed.get(f"{stuck.name}/changes")["changes"][0]
    visit.button("Undo").click()

    hour = 60 * MINUTE_MS
    eventually(lambda: seed.get(stuck.name)["writer_timeout_ms"], expected=hour)
    is_now = {"writer_timeout_ms": 3 * hour}
    assert (change["action"], change["is"], change["comment"]) == ("settings", is_now, WHY)


def test_dry_run_of_a_setting_stays_in_sight_with_its_button(visit: Visit, stuck: Stalled) -> None:
    """Wherever the form is scrolled; numbers are read as they are shown."""
    dialog = open_dialog(visit, stuck.name, "Edit settings…")
    last = dialog.element.get_by_label("Max offset jump")
    expect(last).to_have_value("1,000,000,000,000")
    last.fill("2,000")

    expect(dialog.dry_run).to_contain_text("from 1,000,000,000,000 to 2,000.")
    for field in (dialog.element.get_by_label("Writer timeout"), last):
        field.focus()
        assert visit.is_in_sight(dialog.dry_run, visit.button("Save"), field)


def add_marks(seed: Calls, stuck: Stalled) -> int:
    """Add five marks to the stream; returns how many it has."""
    for step in range(1, 6):
        lima = {"writer": "lima", "time": stuck.held_at + step, "position": {"0": 100 + step}}
        seed.post(stuck.name, lima)
    return len(seed.get(f"{stuck.name}/marks")["marks"])


def test_dry_run_of_a_truncation_counts_dropped_marks(
    visit: Visit, seed: Calls, stuck: Stalled
) -> None:
    """As many as are then gone."""
    before = add_marks(seed, stuck)
    dialog = open_dialog(visit, stuck.name, "Truncate…")
    dialog.element.get_by_label("Where may readers begin?").fill("0:104 1:900 2:900")
    expect(dialog.dry_run).to_contain_text(re.compile(r"\d"))
    shown = dialog.dry_run.inner_text()
    dialog.act("Truncate", WHY)
    expect(visit.status).to_contain_text(re.compile("truncated", re.IGNORECASE))

    gone = before - len(seed.get(f"{stuck.name}/marks")["marks"])
    assert gone > 0
    assert re.search(rf"\b{gone}\b", shown)


def test_dry_run_of_a_shorter_retention_counts_dropped_marks(
    visit: Visit, seed: Calls, stuck: Stalled
) -> None:
    """For good, so what was dropped cannot be put back by Undo."""
    going = add_marks(seed, stuck) - 1
    dialog = open_dialog(visit, stuck.name, "Edit settings…")
    dialog.element.get_by_label(re.compile("mark retention", re.IGNORECASE)).fill("0s")
    expect(dialog.dry_run).to_contain_text(f"{going} marks of default would be dropped, for good.")
    dialog.act("Save", WHY)
    expect(visit.status).to_contain_text("saved")

    expect(visit.button("Undo")).to_have_count(0)


def test_sealed_stream_has_no_seal_button(visit: Visit, seed: Calls, stuck: Stalled) -> None:
    """Its writers are finished, the reason is kept, and the button is gone."""
    dialog = open_dialog(visit, stuck.name, "Seal…")
    expect(dialog.dry_run).to_contain_text("This cannot be undone")
    dialog.act("Seal", WHY)
    expect(visit.region("Why")).to_contain_text("is sealed at")
    expect(visit.button("Seal…")).to_have_count(0)

    change = seed.get(f"{stuck.name}/changes")["changes"][0]
    assert (change["action"], change["comment"]) == ("sealed", WHY)


def test_refused_change_is_reported_and_keeps_typed_text(
    visit: Visit, seed: Calls, stuck: Stalled
) -> None:
    """For example, the stream was removed in between."""
    dialog = open_dialog(visit, stuck.name, "Remove lima…").shown()
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
    """The dialog stays until it is left, and shows what is missing."""
    dialog = open_dialog(visit, stuck.name, "Remove lima…").shown()
    dialog.press("Remove")
    expect(dialog.why).to_be_focused()
    dialog.press("Cancel")

    expect(dialog.element).to_be_hidden()
    assert seed.get(f"{stuck.name}/writers/lima")["state"] == "live"
