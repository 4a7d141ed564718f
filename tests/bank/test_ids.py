from bank.ids import new_id


def test_an_id_says_what_it_names_and_never_repeats():
    ids = {new_id("ep") for _ in range(1000)}
    assert len(ids) == 1000
    assert all(one.startswith("ep_") and len(one) == 27 and int(one[3:], 16) >= 0 for one in ids)
