"""All noted times are true, by PostgreSQL's own commit times or starts of transactions."""

import time
from contextlib import ExitStack

from noted_time_extensions.debezium.heartbeat_query import build_query
from tools.trials.changes import Transactions
from tools.trials.daemons import Daemon
from tools.trials.debezium import Worker
from tools.trials.shop import Shop
from tools.trials.waiting import wait_until


def wait_for_marks(shop: Shop, observer: Daemon, count: int, table: str = "orders") -> None:
    """Wait for so many more marks of a table; fail if its observer ends."""
    wanted_count = len(shop.list_noted(table)) + count
    wait_until(lambda: observer.running() and len(shop.list_noted(table)) >= wanted_count)


def test_no_claim_is_false_over_a_snapshot_and_kills(shop: Shop, worker: Worker) -> None:
    """The observers begin before the snapshot, and the worker is killed twice."""
    with ExitStack() as stack:
        observer = stack.enter_context(shop.observe("orders"))
        other_observer = stack.enter_context(shop.observe("payments"))
        stack.enter_context(Transactions(shop.url))
        wait_until(lambda: shop.count_changes("orders") > 100)  # rows for the snapshot
        shop.connect(worker)
        worker.wait_until_running(shop.name)
        wait_for_marks(shop, observer, 10)
        for _ in range(2):
            worker.kill()
            worker.start()
            worker.wait_until_running(shop.name)
            wait_for_marks(shop, observer, 5)
        wait_for_marks(shop, other_observer, 5, "payments")
    orders = shop.judge("orders")
    payments = shop.judge("payments")

    assert (orders.wrong, payments.wrong) == ([], [])
    assert (orders.noted >= 20, payments.noted >= 5) == (True, True)
    assert min(orders.changes, payments.changes) > 100


def test_claims_are_true_if_connect_writes_exactly_once(shop: Shop, exact_worker: Worker) -> None:
    """A kill leaves an open transaction, which readers of committed records wait for."""
    with shop.observe("orders", "--offsets", "exact-offsets") as observer, Transactions(shop.url):
        shop.connect(exact_worker, exactly_once_support="required")
        exact_worker.wait_until_running(shop.name)
        wait_for_marks(shop, observer, 5)
        exact_worker.kill()
        exact_worker.start()
        exact_worker.wait_until_running(shop.name)
        wait_for_marks(shop, observer, 5)
    orders = shop.judge("orders")

    assert (orders.wrong, orders.noted >= 10) == ([], True)


def test_a_deleted_offset_holds_until_the_new_snapshot(shop: Shop, worker: Worker) -> None:
    """The slot is dropped, too, so changes would be missing without the snapshot."""
    with shop.observe("orders") as observer, Transactions(shop.url):
        # the end of a short snapshot stands in the offsets at one commit of these, every 500 ms
        shop.connect(worker, snapshot_mode="always", streaming_delay_ms="3000")
        worker.wait_until_running(shop.name)
        wait_for_marks(shop, observer, 5)
        worker.delete_offsets(shop.name)
        worker.wait_until_running(shop.name)
        wait_for_marks(shop, observer, 5)
    orders = shop.judge("orders")

    assert (orders.wrong, orders.noted > 8) == ([], True)


def test_starts_are_true_with_long_and_prepared_transactions(shop: Shop, worker: Worker) -> None:
    """A column with DEFAULT now() has no commit times."""
    query = {"heartbeat_action_query": build_query()}
    with shop.observe("orders", "--by", "start") as observer, Transactions(shop.url):
        shop.connect(worker, **query)
        worker.wait_until_running(shop.name)
        wait_for_marks(shop, observer, 5)
        with shop.server.session(shop.url) as session:
            session.execute("BEGIN")
            session.execute("INSERT INTO orders (pad) VALUES ('prepared')")
            session.execute("PREPARE TRANSACTION 'long'")
            time.sleep(3)
            session.execute("COMMIT PREPARED 'long'")
        wait_for_marks(shop, observer, 5)
    orders = shop.judge("orders", by="start")

    assert (orders.wrong, orders.noted >= 10) == ([], True)
