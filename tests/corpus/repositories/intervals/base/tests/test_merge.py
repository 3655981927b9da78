import unittest

from intervals import merge


class MergeTest(unittest.TestCase):
    def test_those_apart_stay_apart(self):
        self.assertEqual(merge([(5, 6), (1, 2)]), [(1, 2), (5, 6)])

    def test_those_that_overlap_are_merged(self):
        self.assertEqual(merge([(1, 3), (2, 4)]), [(1, 4)])

    def test_those_that_touch_are_merged(self):
        self.assertEqual(merge([(1, 2), (2, 4)]), [(1, 4)])
