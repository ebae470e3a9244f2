"""A badge: one model on one platform, as a small SVG with text."""

from markupsafe import Markup

from dayzero.web.frame import cut

_COLOURS = {"verified": "#17692f", "functional": "#7d5200", "failing": "#b3202a", "stale": "#5a636d"}
_CHARACTER_PX = 6.6
_BADGE = Markup("""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{left}: {right}">\
<title>{left}: {right}</title><rect width="{width}" height="20" rx="3" fill="#3b434b"/>\
<rect x="{split}" width="{rest}" height="20" rx="3" fill="{colour}"/>\
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">\
<text x="6" y="14" textLength="{left_px}">{left}</text>\
<text x="{right_x}" y="14" textLength="{right_px}">{right}</text></g></svg>
""")


def badge(platform: str, correctness: str | None, freshness: str | None) -> str:
    """The badge's SVG; a stale entry says so, and what nobody tried is said too."""
    state = "not tried" if correctness is None else correctness
    right = f"{state}, stale" if freshness == "stale" else state
    left = cut(platform, 40)
    left_px, right_px = len(left) * _CHARACTER_PX, len(right) * _CHARACTER_PX
    split = left_px + 12
    return str(
        _BADGE.format(
            width=f"{split + right_px + 12:.0f}",
            split=f"{split:.0f}",
            rest=f"{right_px + 12:.0f}",
            left=left,
            right=right,
            left_px=f"{left_px:.0f}",
            right_px=f"{right_px:.0f}",
            right_x=f"{split + 6:.0f}",
            colour=_COLOURS.get("stale" if freshness == "stale" else state, "#5a636d"),
        )
    )
