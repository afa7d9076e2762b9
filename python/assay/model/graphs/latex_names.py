r"""Symbols, units, numbers and words as LaTeX.

>>> symbol("t_step"), symbol("eta_P"), symbol("r'")
('t_{\\mathrm{step}}', '\\eta_{P}', "r'")
>>> unit("FLOP/(s*GPU)")
'\\mathrm{FLOP}/(\\mathrm{s}\\,\\mathrm{GPU})'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from assay.model.language.variables import Variable

_GREEK: Final = {
    "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta",
    "vartheta", "iota", "kappa", "lambda", "mu", "nu", "xi", "pi", "rho", "sigma", "tau",
    "upsilon", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi",
    "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega", "hbar", "ell",
}  # fmt: skip
_TEXT: Final = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
_PLAIN: Final = re.compile(r"[A-Za-z0-9.,+/-]+")
_UNIT_TOKEN: Final = re.compile(r"(\*\*|\^|[*/()]|[A-Za-z]+|[$%]|[+-]?\d+(?:\.\d+)?)")


def escape(text: str) -> str:
    r"""Text for LaTeX's text mode.

    >>> escape("5 % of R&D")
    '5 \\% of R\\&D'
    """
    return "".join(_TEXT.get(character, character) for character in text)


def symbol(text: str, extra: str = "") -> str:
    """A variable's symbol: underscores start subscripts, Greek letters are spelled out.

    What is LaTeX already, with backslash or braces, stays as it is. `extra` joins the
    subscripts, to tell apart variables that share a symbol.
    """
    written = "\\" in text or "{" in text
    if written and text.count("{") == text.count("}"):
        # A second subscript or superscript on one base is an error in LaTeX; on a group it is not.
        grouped = f"{{{text}}}" if extra or "^" in text else text
        return f"{grouped}_{{{_word(extra)}}}" if extra else grouped
    head, *subscripts = text.split("_")
    letters = head.rstrip("'")
    if not letters:
        return _word(text or "?")
    base = _word(letters) + head[len(letters) :]
    below = ",".join(_word(part) for part in (*subscripts, extra) if part)
    return f"{base}_{{{below}}}" if below else base


def _word(text: str) -> str:
    if text in _GREEK:
        return f"\\{text}"
    if text.isdigit() or (len(text) == 1 and text.isalpha()):
        return text
    return f"\\mathrm{{{text}}}" if _PLAIN.fullmatch(text) else f"\\text{{{escape(text)}}}"


def symbols(variables: Iterable[Variable]) -> dict[str, str]:
    """Symbols by name; variables that share one carry their name as a subscript."""
    listed = list(variables)
    shared = Counter(symbol(variable.symbol) for variable in listed)
    return {
        v.name: symbol(v.symbol, v.name if shared[symbol(v.symbol)] > 1 else "") for v in listed
    }


def unit(text: str) -> str:
    """A unit's text in upright type."""
    if text == "degC":
        return r"{}^{\circ}\mathrm{C}"
    parts: list[str] = []
    raised = ""
    for token in _UNIT_TOKEN.findall(text):
        if token in ("^", "**"):
            raised = "^"
        elif raised == "^" and token != "(":
            parts.append(f"^{{{token}}}")
            raised = ""
        elif raised:
            # An exponent in parentheses, such as (1/2), goes into the braces as a whole.
            raised = f"{raised}{token}"
            if token == ")":
                parts.append(f"^{{{raised[2:-1]}}}")
                raised = ""
        else:
            parts.append(r"\," if token == "*" else _unit_name(token))
    return "".join(parts)


def _unit_name(token: str) -> str:
    if token in "/()":
        return token
    if token in "$%":
        return f"\\{token}"
    if token.isdigit():
        return token
    micro = token.startswith("u")
    name = token[1:] if micro else token
    prefix = r"\mu" if micro else ""
    if name.endswith("ohm"):
        before = name[:-3]
        return prefix + (rf"\mathrm{{{before}}}" if before else "") + r"\Omega"
    return rf"{prefix}\mathrm{{{name}}}"


def number(value: float) -> str:
    r"""A number to twelve digits, large and small ones as powers of ten.

    >>> number(1.5e15), number(0.25)
    ('1.5 \\times 10^{15}', '0.25')
    """
    digits, _, exponent = f"{value:.12g}".partition("e")
    if not exponent:
        return digits
    power = rf"10^{{{int(exponent)}}}"
    if digits in ("1", "-1"):
        return digits[:-1] + power
    return rf"{digits} \times {power}"
