"""The hop that holds a dataset, on random graphs of datasets."""

import random

from noted_time import Rejected
from noted_time.reading.lineage import MOST_DEPTH, Dataset, Hop, Source, find_circles, walk
from noted_time.reading.lineage_sentences import Why


def draw_chain(chance: random.Random) -> dict[Dataset, Hop]:
    """Return a chain from a table to a stream, each hop behind the one after it or equal to it."""
    length = chance.randint(1, 8)
    times = sorted(chance.randint(0, 9) for _ in range(length))
    names = [Dataset(f"delta:{n}") for n in range(length - 1)] + [Dataset("orders")]
    hops = {}
    for place, (name, time) in enumerate(zip(names, times, strict=True)):
        after = names[place + 1 : place + 2]
        hops[name] = Hop(name, time, tuple(Source(each, time) for each in after))
    return hops


def test_the_culprit_is_the_first_hop_whose_sources_have_what_it_lacks() -> None:
    """Each hop is read once."""
    for seed in range(1000):
        hops, time = draw_chain(random.Random(seed)), random.Random(-seed).randint(0, 10)
        read: list[Dataset] = []
        root = next(iter(hops))
        found = walk(root, lambda each, h=hops, r=read: (r.append(each), h[each])[1])
        why = Why.of(found, root, time)

        first = next(
            (
                hop
                for hop in hops.values()
                if not hop.has(time) and all(hops[s.dataset].has(time) for s in hop.sources)
            ),
            None,
        )
        assert read == [*hops]
        assert (why.holder.hop if why.holder else None) is (
            first if not hops[root].has(time) else None
        )


def test_circles_are_named_and_the_walk_ends() -> None:
    """Also where all sources of the culprit are in the circle."""
    a, b = Dataset("delta:a"), Dataset("delta:b")
    hops = {a: Hop(a, 1, (Source(b, 1),)), b: Hop(b, 1, (Source(a, 1),))}
    why = Why.of(walk(a, hops.__getitem__), a, 5)

    assert find_circles(why.hops, a) == [(a, b)]
    assert why.sentence.endswith("made from each other: delta:a from delta:b from delta:a")


def test_an_unreadable_hop_is_named_and_the_walk_goes_on() -> None:
    """To the streams that the table made from it remembers."""
    gold, silver, orders = Dataset("delta:gold"), Dataset("delta:silver"), Dataset("orders")
    known = {
        gold: Hop(gold, 3, (Source(silver, 3, 4, 0, 1, by_job=True),), origins=(orders,)),
        orders: Hop(orders, 9),
    }

    def read(each: Dataset) -> Hop:
        if each not in known:
            raise Rejected("it is gone")
        return known[each]

    why = Why.of(walk(gold, read), gold, 5)

    assert [*why.hops] == [gold, silver, orders]
    assert why.sentence == (
        "delta:gold is complete to 3 and not to 5, because delta:silver cannot be read: "
        "it is gone; the dataset made from it remembers 4"
    )


def test_a_walk_ends_after_twenty_hops() -> None:
    """The next hop says why it was not read."""
    names = [Dataset(f"delta:{n}") for n in range(50)]
    hops = {
        name: Hop(name, 1, tuple(Source(each, 1) for each in names[n + 1 : n + 2]))
        for n, name in enumerate(names)
    }
    found = walk(names[0], hops.__getitem__)

    assert [hop.is_read for hop in found.values()] == [True] * MOST_DEPTH + [False]
