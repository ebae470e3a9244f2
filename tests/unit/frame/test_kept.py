"""A value that many ask for at once is made once, and again when it is old."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from dayzero.kept import Kept
from store_nouns import SteppedClock


def test_it_is_made_anew_once_it_is_old() -> None:
    clock, made = SteppedClock(), iter(range(10))
    kept = Kept[str, int](clock, for_s=10.0, most=2)
    assert [kept.get("a", lambda: next(made)), kept.get("a", lambda: next(made))] == [0, 0]
    clock.forward(10.5)
    assert kept.get("a", lambda: next(made)) == 1


def test_others_get_the_old_one_while_it_is_made() -> None:
    clock, begun, go_on = SteppedClock(), Event(), Event()
    kept = Kept[str, int](clock, for_s=10.0, most=2)
    kept.get("a", lambda: 1)
    clock.forward(11.0)

    def slowly() -> int:
        begun.set()
        assert go_on.wait(30)
        return 2

    with ThreadPoolExecutor(1) as pool:
        maker = pool.submit(kept.get, "a", slowly)
        assert begun.wait(30)
        assert kept.get("a", lambda: 3) == 1
        go_on.set()
        assert maker.result() == 2
    assert kept.get("a", lambda: 4) == 2


def test_what_could_not_be_made_is_not_kept() -> None:
    kept = Kept[str, int](SteppedClock(), for_s=10.0, most=2)
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 // 0)
    assert kept.get("a", lambda: 5) == 5


def test_only_the_last_asked_for_are_kept() -> None:
    kept = Kept[str, str](SteppedClock(), for_s=10.0, most=2)
    for key in ("a", "b", "c"):
        kept.get(key, key.upper)
    assert [kept.get("c", lambda: "made again"), kept.get("a", lambda: "made again")] == ["C", "made again"]
