"""The small programs that a sandbox runs for us: standard library only, handed over as text to its own Python."""

from __future__ import annotations

from importlib import resources


def source(name: str, *needs: str) -> str:
    """The text of the program `name`, for `python3 -IS -c`; `needs` are the modules beside it that it imports."""
    text = _text(name)
    if not needs:
        return text
    lines = ["import sys, types", f"for name in {_packages(__name__)!r}: sys.modules[name] = types.ModuleType(name)"]
    for need in needs:
        lines.append(f"module = sys.modules[{__name__ + '.' + need!r}] = types.ModuleType({need!r})")
        lines.append(f"exec({_text(need)!r}, module.__dict__)")
        lines.append(f"setattr(sys.modules[{__name__!r}], {need!r}, module)")
    lines.append(f"exec({text!r}, {{'__name__': '__main__'}})")
    return "\n".join(lines)


def _text(name: str) -> str:
    return (resources.files(__name__) / f"{name}.py").read_text(encoding="utf-8")


def _packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: n + 1]) for n in range(len(parts))]
