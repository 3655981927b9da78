import unittest

from temperature import fahrenheit, shown


class FahrenheitTest(unittest.TestCase):
    def test_water_freezes_and_boils(self):
        self.assertEqual(fahrenheit(0), 32)
        self.assertEqual(fahrenheit(100), 212)

    def test_degrees_grow_together(self):
        self.assertLess(fahrenheit(10), fahrenheit(20))


class ShownTest(unittest.TestCase):
    def test_shown_to_people(self):
        self.assertEqual(shown(20.6), "20.6 °C")
