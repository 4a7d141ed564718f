from hypothesis import given
from hypothesis import strategies as st

from agents.tools.cap import cap_result


@given(st.text(), st.integers(0, 60))
def test_a_result_is_never_longer_than_its_limit(text, limit):
    capped = cap_result(text, limit)
    assert len(capped) <= max(limit, 0)
    assert len(text) > limit or capped == text.replace("\0", "?")


def test_a_cut_result_says_how_much_is_missing():
    capped = cap_result("x" * 10_000_000, 100)
    head, _, notice = capped.partition("\n")
    assert notice == f"[{10_000_000 - len(head)} of 10000000 characters left out]"
    assert set(head) == {"x"}
    assert len(capped) == 100


def test_the_cut_falls_between_characters():
    capped = cap_result("é漢🙂" * 1000, 101)
    assert ("é漢🙂" * 1000).startswith(capped.partition("\n")[0])
    assert capped.encode("utf-8").decode("utf-8") == capped


def test_half_a_surrogate_pair_is_replaced():
    assert cap_result("a\ud83d", 10) == "a?"
