"""Lock files: what is written is read again, and whatever is no lock is refused with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.stacks import Pin, StackRecipe
from dayzero.errors import BadInputError
from dayzero.stages.stacks.locks import MOST_PINS, canonical, read_lock, write_lock

SHA = "ab" * 32
names = st.from_regex(r"[a-z0-9](?:[a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True).map(canonical)
versions = st.from_regex(r"[0-9]{1,3}(?:\.[0-9]{1,3}){0,3}(?:rc[0-9])?", fullmatch=True)
hashes = st.lists(st.text("0123456789abcdef", min_size=64, max_size=64), min_size=1, max_size=3).map(tuple)


@given(st.dictionaries(names, versions, min_size=1, max_size=8), st.data())
def test_what_is_written_is_read_again(pinned: dict[str, str], data: st.DataObject) -> None:
    with_hashes = data.draw(st.booleans())
    pins = tuple(Pin(name, pinned[name], data.draw(hashes) if with_hashes else ()) for name in sorted(pinned))
    recipe = StackRecipe("some-stack", pins)
    assert read_lock("some-stack", write_lock(recipe)) == recipe


@given(st.text(max_size=300))
def test_any_text_is_a_lock_or_is_refused(text: str) -> None:
    try:
        recipe = read_lock("any", text)
    except BadInputError:
        return
    assert recipe.pins


def test_the_fingerprint_is_of_what_is_installed_and_not_of_its_name() -> None:
    one = read_lock("one", "transformers==5.20.0\ntokenizers==0.22.2\n")
    other = read_lock("other", "# a comment\n\nTokenizers==0.22.2\ntransformers==5.20.0")
    assert one.fingerprint == other.fingerprint
    assert one.fingerprint != read_lock("one", "transformers==5.20.1\ntokenizers==0.22.2\n").fingerprint
    assert one.library_version == "5.20.0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("transformers>=5\n", "line 1 .* no pin"),
        ("# first\ntransformers==5.20.0 --index-url https://elsewhere\n", "line 2 .* no pin"),
        ("-r other.txt", "line 1 .* no pin"),
        ("transformers @ file:///tmp/x.whl", "line 1 .* no pin"),
        ("transformers==5.20.0; python_version<'4'", "line 1 .* no pin"),
        ("a==1\nA==1", "line 2 .* pins a a second time"),
        (f"a==1 --hash=sha256:{SHA}\nb==2", "for some packages and none for b==2"),
        ("a==1 --hash=sha256:short", "no pin"),
        ("", "pins 0 packages"),
        ("\n".join(f"package{number}==1" for number in range(MOST_PINS + 1)), f"it needs 1 to {MOST_PINS}"),
        ("#" * ((1 << 20) + 1), "more than"),
    ],
)
def test_what_is_no_lock_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        read_lock("mine", text)


@pytest.mark.parametrize("name", ["", "../up", "Capital", "a/b", "-dash", "a" * 65])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match="names no stack"):
        read_lock(name, "a==1")
