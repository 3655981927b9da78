"""HTML in people's text: where a tag or a comment ends, what of it shows, and what it hides."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SHOWN = frozenset(
    [
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "br",
        "b",
        "i",
        "strong",
        "em",
        "a",
        "pre",
        "code",
        "tt",
        "div",
        "ins",
        "del",
        "sup",
        "sub",
        "p",
        "ol",
        "ul",
        "li",
        "table",
        "thead",
        "tbody",
        "tfoot",
        "tr",
        "td",
        "th",
        "blockquote",
        "dl",
        "dt",
        "dd",
        "kbd",
        "q",
        "samp",
        "var",
        "hr",
        "ruby",
        "rt",
        "rp",
        "s",
        "strike",
        "summary",
        "details",
        "caption",
        "figure",
        "figcaption",
        "abbr",
        "bdo",
        "cite",
        "dfn",
        "mark",
        "small",
        "span",
        "time",
        "wbr",
        "center",
    ]
)
"""Tags that say something about the text in them; all others go."""
_UNSHOWN = frozenset(
    [
        "script",
        "style",
        "template",
        "title",
        "textarea",
        "xmp",
        "iframe",
        "noembed",
        "noframes",
        "noscript",
        "plaintext",
        "object",
        "svg",
        "math",
        "audio",
        "video",
        "canvas",
        "datalist",
        "select",
        "head",
    ]
)
"""What is in these is no text for readers."""
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
_TAG = re.compile(
    r"""<(?:/(?P<closed>[A-Za-z][A-Za-z0-9-]*+)\s*+>"""
    r"""|(?P<name>[A-Za-z][A-Za-z0-9-]*+)(?P<rest>(?:\s++[A-Za-z_:][\w.:-]*+"""
    r"""(?:\s*+=\s*+(?:[^\s"'=<>`]++|'[^']*+'|"[^"]*+"))?)*+)\s*+/?>)""",
    re.ASCII,
)
"""https://spec.commonmark.org/0.31.2/#html-tag"""
_LOOSE = re.compile(r"""</?(?P<name>[A-Za-z][^\s/>]*+)(?P<rest>(?:"[^"]*+"|'[^']*+'|[^"'>])*+)>""")
"""A tag as browsers take it."""
_BEGUN = re.compile(r"</?[A-Za-z]")
_SPAN = re.compile(
    r"<!---->|<!---?[^>-](?:-?[^-])*+-->|<\?(?:[^?]|\?(?!>))++\?>|<![A-Z]+\s[^>]*+>|<!\[CDATA\[(?:[^\]]|\](?!\]>))*+\]\]>"
    # What newer versions of CommonMark take as well; without what else could begin in there, the rest reads the same.
    r"|<!--(?:[^<`\[\]]|<(?=!--))*?-->|<!--?-?>|<![A-Za-z][^<>`\[\]]*+>"
)
"""What GitHub's Markdown takes for a comment, a declaration and the like."""
_BLOCK_SPANS = ((re.compile(r"<!\[CDATA\[", re.IGNORECASE), "]]>"), (re.compile(r"<\?"), "?>"))
_BOGUS = re.compile(r"<(?:!|/[^A-Za-z])")
"""Browsers make a comment of these, up to the next `>`."""
_ATTRIBUTE = re.compile(r"""([^\s"'>/=]+)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s"'>]*+))?""")
_HIDING = re.compile(
    r"[\\]|/\*|display:none|visibility:(?:hidden|collapse)|opacity:0?(?:\.0|;|$)|font-size:(?:0|1px|\.)|clip"
    r"|(?:max-)?(?:width|height):0|(?:left|right|top|bottom|text-indent|margin[a-z-]*):-|scale\(0"
    r"|color:(?:transparent|white|#f{3,8}\b|rgba?\(255|rgba\([^)]*,0\))"
)


@dataclass(frozen=True, kw_only=True)
class Tag:
    """A tag, or (`name` is empty) a comment and its like. `end` is where it ends, None where it never does; `shown`
    is what is left of it, `kind` says what else there was, if it is `lost`. `hides`: what is in it is not shown."""

    end: int | None
    name: str = ""
    closes: bool = False
    shown: str = ""
    kind: str = "HTML comments"
    lost: bool = True
    hides: bool = False


def next_tag(text: str, at: int) -> Tag | None:
    """What begins with the `<` at that place of a paragraph, as Markdown has it; None where it is only a `<`."""
    if span := _SPAN.match(text, at):
        return Tag(end=span.end())
    if text.startswith("<!--", at):
        return Tag(end=None)
    found = _TAG.match(text, at)
    return _tag(found) if found else None


def next_block_tag(text: str, at: int) -> Tag | None:
    """The same in a block of HTML, where browsers decide."""
    if text.startswith("<!--", at):
        # `<!-->` is a whole comment; browsers take `--!>` for an end as well.
        end = text.find("-->", at + 2)
        sure = end >= 0 and "--!>" not in text[at:end]
        return Tag(end=end + 3 if sure else None)
    for opener, closer in _BLOCK_SPANS:
        if begins := opener.match(text, at):
            end = text.find(closer, begins.end())
            # Browsers end it at the first `>`; something else may begin after that.
            sure = end >= 0 and "<" not in text[begins.end() : end].partition(">")[2]
            return Tag(end=end + len(closer) if sure else None)
    if _BOGUS.match(text, at):
        end = text.find(">", at)
        return Tag(end=None if end < 0 else end + 1)
    if found := _LOOSE.match(text, at):
        return _tag(found)
    # A browser reads on for the end of a tag as long as there is text.
    return Tag(end=None) if _BEGUN.match(text, at) else None


def hiding_tags(text: str) -> Iterator[Tag]:
    """Every tag in a text that hides what follows, wherever it stands."""
    return (tag for found in _TAG.finditer(text) if (tag := _tag(found)).hides)


def _tag(found: re.Match[str]) -> Tag:
    closes = found[0].startswith("</")
    name = (found["name"] or found["closed"]).lower()
    rest = found["rest"] or ""
    shown = name in _SHOWN
    return Tag(
        end=found.end(),
        name=name,
        closes=closes,
        shown=f"<{'/' if closes else ''}{name}>" if shown else "",
        kind="HTML attributes" if shown else "HTML tags",
        lost=bool(rest.strip(" /\t\n")) if shown else not closes,
        hides=not closes and name not in _VOID and (name in _UNSHOWN or _hides(rest)),
    )


def _hides(attributes: str) -> bool:
    for attribute in _ATTRIBUTE.finditer(attributes):
        name = attribute[1].lower()
        value = re.sub(r"\s", "", html.unescape((attribute[2] or "").strip("\"'"))).lower()
        if name == "hidden" or (name == "aria-hidden" and value != "false"):
            return True
        if name == "style" and _HIDING.search(value):
            return True
        if name in ("color", "size", "width", "height") and value in ("white", "#fff", "#ffffff", "transparent", "0"):
            return True
    return False
