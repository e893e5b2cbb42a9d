"""Random histories of honest writers, as acts upon a `World`."""

from collections.abc import Callable
from operator import add
from typing import Literal

from hypothesis import strategies as st

from noted_time.values import State, StreamSettings
from noted_time.values.settings import ReturningWriter
from tests.core.world import Declares, World

Act = tuple[str, tuple[object, ...]]
WRITERS = ("a", "b", "c")
DOMAINS = ("order", "ship")

_writers = st.sampled_from(WRITERS)
_domains = st.sampled_from(DOMAINS)
_live: tuple[State, ...] = ("live", "live", "live", "idle", "finished")
_live_or_idle: st.SearchStrategy[State] = st.sampled_from(("live", "idle"))
_states = st.sampled_from(_live)
_declares: st.SearchStrategy[Declares] = st.sampled_from(("nothing", "own", "all", "all"))
_returning: tuple[ReturningWriter, ...] = ("wait", "exclude")


def _act(name: str, *parts: st.SearchStrategy[object]) -> st.SearchStrategy[Act]:
    return st.tuples(st.just(name), st.tuples(*parts))


_write = _act(
    "write",
    _writers,
    st.integers(0, 5),
    st.fixed_dictionaries({domain: st.integers(0, 6) for domain in DOMAINS}),
)
_note = _act(
    "note", _writers, _domains, st.none() | st.integers(0, 6), st.booleans(), _states, _declares
)
_go_on = _act(
    *("note", _writers, _domains, st.integers(1, 6), st.just(value=True), st.just("live")),
    _declares,
)
_advance = _act("advance", _domains)
_wait = _act("wait", st.integers(0, 6))
_scale = _act("scale", st.sets(st.integers(0, 5), min_size=1, max_size=2), st.integers(1, 2))
_learn = _act("learn")
_restart = _act("restart")
_deliver = _act("deliver", _writers, st.integers(0, 5))
_vouch = _act("vouch", _writers, st.sampled_from((DOMAINS, DOMAINS[:1], DOMAINS[1:])))
_forget = _act("forget")
_remove = _act("remove", _writers)
_expect = _act("expect", _writers)
_suspend_timeout = _act("suspend_timeout", _writers, st.none() | st.integers(0, 9))
_ends: st.SearchStrategy[list[Act]] = st.sampled_from(([], [("seal", ())]))

Kind = Literal[
    "expects", "forgets", "holds", "late", "narrows", "removals", "restarts", "scales", "waits"
]


def histories(*kinds: Kind, length: int = 50, seals: bool = False) -> st.SearchStrategy[list[Act]]:
    """Return histories of writing, noting and advancing, with the given kinds of trouble.

    Most of the notes have rising times. With `seals`, a seal may end the history.
    """
    trouble = {
        "expects": (_expect,),
        "forgets": (_forget,),
        "holds": (_suspend_timeout,),
        "late": (_deliver,),
        "narrows": (_vouch,),
        "removals": (_remove,),
        "restarts": (_restart,),
        "scales": (_scale, _learn),
        "waits": (_wait,),
    }
    extra_acts: list[st.SearchStrategy[Act]] = []
    for kind in kinds:
        extra_acts += trouble[kind]
    acts = st.one_of(_write, _write, _note, _note, *[_go_on] * 4, _advance, _advance, *extra_acts)
    history = st.lists(acts, min_size=length // 3, max_size=length)
    return st.builds(add, history, _ends) if seals else history


ALL_TROUBLE = histories("waits", "scales", "restarts", "late")


def late_histories() -> st.SearchStrategy[list[Act]]:
    """Return histories of two writers, live at first, with many late requests."""
    domain = st.just(DOMAINS[0])
    two = st.sampled_from(WRITERS[:2])
    first_acts: list[Act] = [
        ("note", (writer, DOMAINS[0], 1, True, "live", "own")) for writer in WRITERS[:2]
    ]
    advances = st.fixed_dictionaries({DOMAINS[0]: st.integers(0, 1)})
    acts = (
        _act("write", two, st.integers(0, 1), advances),
        _act(
            "note",
            *(two, domain, st.none() | st.just(3), st.just(value=True), _live_or_idle, _declares),
        ),
        _act("deliver", two, st.integers(1, 3)),
        _act("advance", domain),
    )
    history = st.lists(st.one_of(*acts), min_size=30, max_size=50)
    return st.builds(add, st.just(first_acts), history)


def event_histories() -> st.SearchStrategy[list[Act]]:
    """Return histories, with all trouble, whose writers mostly declare and seldom share."""
    advances = {domain: st.integers(0, 6) for domain in DOMAINS}
    writer_acts = [
        _act("write", st.just(writer), st.just(number), st.fixed_dictionaries(advances))
        for number, writer in enumerate(WRITERS)
    ]
    first_acts: list[Act] = []
    for number, writer in enumerate(WRITERS):
        first_acts.append(("write", (writer, number, {})))
        first_acts += [("note", (writer, domain, 1, True, "live", "all")) for domain in DOMAINS]
    is_whole = st.just(value=True)
    all_ = st.just("all")
    note = _act("note", _writers, _domains, st.integers(0, 6), is_whole, _states, all_)
    trouble = (_write, _note, _wait, _scale, _learn, _restart, _deliver, _vouch, _forget, _remove)
    acts = st.one_of(*writer_acts, note, note, note, _advance, _advance, *trouble)
    return st.builds(add, st.just(first_acts), st.lists(acts, min_size=10, max_size=50))


streams = st.builds(
    StreamSettings,
    writer_timeout_ms=st.integers(3, 10),
    returning_writer=st.sampled_from(_returning),
    domains=st.just(DOMAINS),
)


def perform(world: World, act: Act) -> None:
    name, parts = act
    method: Callable[..., object] = getattr(world, name)
    method(*parts)


def make_world(
    settings: StreamSettings, history: list[Act], *, segments: int = 3, names_first: bool = False
) -> World:
    world = World(settings, WRITERS, segments)
    world.names_first = names_first
    live(world, history)
    return world


def live(world: World, history: list[Act]) -> None:
    """Perform the history, and advance every domain at its end."""
    for act in history:
        perform(world, act)
    for domain in world.domains:
        while world.advance(domain):
            pass
