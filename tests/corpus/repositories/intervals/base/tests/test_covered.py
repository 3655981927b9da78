import unittest

from intervals import covered


class CoveredTest(unittest.TestCase):
    def test_nothing_covers_nothing(self):
        self.assertEqual(covered([]), 0)

    def test_two_that_overlap(self):
        self.assertEqual(covered([(0, 4), (2, 6)]), 8)
