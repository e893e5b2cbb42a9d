"""All noted times are true, by PostgreSQL's own commit times or starts of transactions."""

import time

from noted_time_extensions.debezium.heartbeat_query import build_query
from tools.trials.changes import Transactions
from tools.trials.debezium import Worker
from tools.trials.shop import Shop
from tools.trials.waiting import wait_until


def wait_for_marks(shop: Shop, table: str, count: int) -> None:
    """Wait for so many more marks."""
    before = len(shop.list_noted(table))
    wait_until(lambda: len(shop.list_noted(table)) >= before + count)


def test_no_claim_is_false_over_a_snapshot_and_kills(shop: Shop, worker: Worker) -> None:
    """The observers begin before the snapshot, and the worker is killed twice."""
    with shop.observe("orders"), shop.observe("payments"), Transactions(shop.url):
        time.sleep(3)  # rows for the snapshot
        shop.connect(worker)
        worker.wait_until_running(shop.name)
        wait_for_marks(shop, "orders", 10)
        for _ in range(2):
            worker.kill()
            worker.start()
            worker.wait_until_running(shop.name)
            wait_for_marks(shop, "orders", 5)
    orders = shop.judge("orders")
    payments = shop.judge("payments")

    assert (orders.wrong, payments.wrong) == ([], [])
    assert min(orders.noted, payments.noted) > 15
    assert min(orders.changes, payments.changes) > 200


def test_a_deleted_offset_holds_until_the_new_snapshot(shop: Shop, worker: Worker) -> None:
    """The slot is dropped, too, so changes would be missing without the snapshot."""
    with shop.observe("orders"), Transactions(shop.url):
        shop.connect(worker, snapshot_mode="always")
        worker.wait_until_running(shop.name)
        wait_for_marks(shop, "orders", 5)
        worker.delete_offsets(shop.name)
        worker.wait_until_running(shop.name)
        wait_for_marks(shop, "orders", 5)
    orders = shop.judge("orders")

    assert (orders.wrong, orders.noted > 8) == ([], True)


def test_starts_are_true_with_long_and_prepared_transactions(shop: Shop, worker: Worker) -> None:
    """A column with DEFAULT now() has no commit times."""
    query = {"heartbeat_action_query": build_query()}
    with shop.observe("orders", "--by", "start"), Transactions(shop.url):
        shop.connect(worker, **query)
        worker.wait_until_running(shop.name)
        wait_for_marks(shop, "orders", 5)
        with shop.server.session(shop.url) as session:
            session.execute("BEGIN")
            session.execute("INSERT INTO orders (pad) VALUES ('prepared')")
            session.execute("PREPARE TRANSACTION 'long'")
            time.sleep(3)
            session.execute("COMMIT PREPARED 'long'")
        wait_for_marks(shop, "orders", 5)
    orders = shop.judge("orders", by="start")

    assert (orders.wrong, orders.noted >= 10) == ([], True)
