"""Names for addresses."""

import re


def slug(title, limit=40):
    """Lower case words, joined by single hyphens, none at either end."""
    return re.sub(r"[^a-z0-9]", "-", title.lower())[:limit]


def initials(name):
    """At most two letters, of the first and the last name."""
    return "".join(word[0].upper() for word in name.split())
