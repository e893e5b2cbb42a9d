"""The hop that holds a dataset, on random graphs of datasets."""

import random

from noted_time.lineage import Dataset, Hop, HopSource, Why, walk
from noted_time.lineage.walking import MOST_DEPTH, Hops


def draw_chain(chance: random.Random) -> dict[Dataset, Hop]:
    """Return a chain from a table to a stream, each hop behind the one after it or equal to it."""
    length = chance.randint(1, 8)
    times = sorted(chance.randint(0, 9) for _ in range(length))
    names = [*list_tables(length - 1), Dataset("orders")]
    return make_chain(names, times)


def list_tables(count: int) -> list[Dataset]:
    return [Dataset(f"delta:{n}") for n in range(count)]


def make_chain(names: list[Dataset], times: list[int]) -> dict[Dataset, Hop]:
    """Return a hop of each time. It is made from the next dataset, and the last from none."""
    hops = {}
    for place, (name, time) in enumerate(zip(names, times, strict=True)):
        sources = tuple(HopSource(source, time) for source in names[place + 1 : place + 2])
        hops[name] = Hop(name, time, sources)
    return hops


def walk_through(hops: Hops, root: Dataset) -> tuple[Hops, list[Dataset]]:
    """Walk, and return the hops, and the datasets in the order of reading."""
    read_datasets: list[Dataset] = []

    def read_one(dataset: Dataset) -> Hop:
        read_datasets.append(dataset)
        return hops[dataset]

    return walk(hops[root], read_one), read_datasets


def test_culprit_is_first_hop_with_complete_sources() -> None:
    """Each hop is read once."""
    for seed in range(1000):
        hops = draw_chain(random.Random(seed))
        time = random.Random(-seed).randint(0, 10)
        root = next(iter(hops.values()))
        found_hops, read_datasets = walk_through(hops, root.dataset)
        why = Why(root.dataset, time, found_hops)

        lagging_hops = [hop for hop in hops.values() if (hop.complete_to or 0) < time]
        assert [root.dataset, *read_datasets] == [*hops]
        assert why.culprit is (lagging_hops[-1] if root in lagging_hops else None)


def test_the_least_complete_source_is_followed() -> None:
    """The delay is subtracted, and each source is read once, even if two hops are made from it."""
    gold = Dataset("delta:gold")
    a = Dataset("delta:a")
    b = Dataset("delta:b")
    orders = Dataset("orders")
    hops = {
        gold: Hop(gold, 3, (HopSource(a, 3), HopSource(b, 3, delay_ms=4))),
        a: Hop(a, 5, (HopSource(orders, 5),)),
        b: Hop(b, 7, (HopSource(orders, 7),)),
        orders: Hop(orders, 9, why="lima has noted no time after 9"),
    }
    found_hops, read_datasets = walk_through(hops, gold)
    culprits = [Why(gold, time, found_hops).culprit for time in (3, 4, 5, 6, None)]

    assert culprits == [None, hops[b], hops[b], hops[orders], hops[b]]
    assert read_datasets == [a, b, orders]


def test_a_stream_that_waits_holds_back_what_is_not_behind() -> None:
    """It holds back a table that has all its rows, but not one that lags more."""
    gold = Dataset("delta:gold")
    orders = Dataset("orders")
    waiting_hop = Hop(orders, 9, why="it waits for lima", is_waiting=True)
    gold_hops = {time: Hop(gold, time, (HopSource(orders, time),)) for time in (7, 9)}
    culprits = {}
    for time, gold_hop in gold_hops.items():
        culprits[time] = Why(gold, None, {gold: gold_hop, orders: waiting_hop}).culprit

    assert culprits == {7: gold_hops[7], 9: waiting_hop}


def test_circle_is_named_and_ends_the_walk() -> None:
    """All sources of the culprit may be in the circle."""
    a = Dataset("delta:a")
    b = Dataset("delta:b")
    hops = {a: Hop(a, 1, (HopSource(b, 1),)), b: Hop(b, 1, (HopSource(a, 1),))}
    why = Why(a, 5, walk(hops[a], hops.__getitem__))

    assert why.sentence.endswith("made from each other: delta:a from delta:b from delta:a")


def test_a_walk_ends_after_twenty_hops() -> None:
    """The next hop says why it was not read."""
    names = list_tables(50)
    hops = make_chain(names, [1] * 50)
    found_hops = walk(hops[names[0]], hops.__getitem__)

    assert [not hop.why for hop in found_hops.values()] == [True] * MOST_DEPTH + [False]
