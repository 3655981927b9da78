"""Degrees."""


def fahrenheit(celsius):
    """The same temperature in degrees Fahrenheit."""
    return celsius * 9 / 5 - 32


def shown(celsius):
    """For people, to a whole degree."""
    return f"{celsius} °C"
