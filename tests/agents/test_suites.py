import pytest

from agents.suites import SUITES, open_suite
from bank.episode import Split


def test_a_spec_names_a_suite_and_a_seed():
    assert open_suite("order_desk:7").name == "order_desk-7"


def test_the_seed_is_zero_when_left_out():
    assert open_suite("order_desk").tasks(Split.HELD_OUT) == open_suite("order_desk:0").tasks(Split.HELD_OUT)


@pytest.mark.parametrize("spec", ["", "orders", "Order_desk:0", "order_desk-0"])
def test_an_unknown_suite_lists_what_exists(spec):
    with pytest.raises(ValueError, match="suites: order_desk"):
        open_suite(spec)


@pytest.mark.parametrize("seed", ["x", "-1", "1.5", " 1", "1000000", "²"])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ValueError, match="whole number below 1000000"):
        open_suite(f"order_desk:{seed}")


def test_there_are_two_suites():
    assert {open_suite(name).name for name in SUITES} == {"order_desk-0", "code-0"}
