"""What makes room: never what is pinned, the least recently used first, all or nothing."""

from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.stored import Keep
from dayzero.stages.retention.eviction import freed_by, plan_room

OBJECTS = {f"o{number}": 10 * (number + 1) for number in range(8)}


@st.composite
def keeps(draw: st.DrawFn) -> list[Keep]:
    count = draw(st.integers(0, 6))
    return [
        Keep(
            f"c{number}",
            {name: OBJECTS[name] for name in draw(st.sets(st.sampled_from(sorted(OBJECTS)), max_size=5))},
            draw(st.floats(0, 100)),
            draw(st.booleans()),
        )
        for number in range(count)
    ]


def on_disk(held: list[Keep]) -> int:
    return sum({name: size for keep in held for name, size in keep.objects.items()}.values())


@given(keeps(), st.integers(0, 400), st.integers(0, 400))
def test_a_plan_fits_or_says_what_is_lacking(held: list[Keep], needed: int, limit: int) -> None:
    plan = plan_room(held, on_disk(held), needed, limit)
    left = [keep for keep in held if keep.content_id not in plan.victims]
    pinned = on_disk([keep for keep in held if keep.pinned])
    assert not {keep.content_id for keep in held if keep.pinned} & set(plan.victims)
    assert plan.pinned_bytes == pinned or on_disk(held) + needed <= limit
    if plan.lacking_bytes:
        assert plan.victims == () and pinned + needed == limit + plan.lacking_bytes
    else:
        assert on_disk(left) + needed <= limit
        assert plan.freed_bytes == on_disk(held) - on_disk(left)


@given(keeps(), st.integers(0, 400), st.integers(0, 400))
def test_no_release_goes_for_nothing(held: list[Keep], needed: int, limit: int) -> None:
    plan = plan_room(held, on_disk(held), needed, limit)
    victims = [keep for keep in held if keep.content_id in plan.victims]
    for spared in victims:
        others = [keep for keep in victims if keep is not spared]
        assert on_disk(held) - freed_by(held, others) + needed > limit


def test_the_least_recently_used_goes_first() -> None:
    old, new = Keep("a", {"x": 50}, 1.0), Keep("b", {"y": 50}, 2.0)
    assert plan_room([new, old], 100, 40, 100).victims == ("a",)


def test_an_object_that_another_release_has_too_is_not_freed() -> None:
    old, new = Keep("a", {"x": 50, "shared": 30}, 1.0), Keep("b", {"shared": 30}, 2.0, pinned=True)
    plan = plan_room([old, new], 80, 60, 100)
    assert plan.lacking_bytes == 0 and plan.freed_bytes == 50
    assert plan_room([old, new], 80, 80, 100).lacking_bytes == 10
