"""Views over HTTP that many writers are in; `calls/views.txt` has the others."""

from tests.support.http import Caller

S = "/v1/streams/s"


async def test_segments_come_a_page_at_a_time(call: Caller) -> None:
    wide = {str(segment): 1 for segment in range(5)}
    await call.note(*({"writer": f"w{n:02}", "position": wide} for n in range(12)))
    pages = [(await call.get(f"{S}/segments", start=n, limit=2)).json() for n in (0, 2, 4)]

    numbers = [[row["segment"] for row in page["segments"]] for page in pages]
    assert (numbers, [page["next"] for page in pages]) == ([[0, 1], [2, 3], [4]], [2, 4, None])
    row = pages[0]["segments"][0]
    assert (row["writers"], row["writers_total"]) == ([f"w{n:02}" for n in range(10)], 12)
