from ledger import shown, split


def test_shares_are_equal_where_they_can_be():
    assert split(900, 3) == [300, 300, 300]


def test_no_cent_is_lost():
    assert split(1000, 3) == [334, 333, 333]


def test_an_amount_has_two_places():
    assert shown(1250) == "12.50"


def test_what_is_owed():
    assert shown(-500) == "-5.00"
