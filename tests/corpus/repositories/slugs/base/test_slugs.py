from slugs import initials, slug


def test_words_are_joined():
    assert slug("One two") == "one-two"


def test_no_hyphen_is_doubled():
    assert slug("Hello,  World!") == "hello-world"


def test_long_titles_are_cut():
    assert slug("a" * 50) == "a" * 40


def test_initials():
    assert initials("Ada King Lovelace") == "AKL"
