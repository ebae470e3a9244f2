"""The style of every plot of a report: one for the page that holds them, with a light and a dark set."""

from dayzero.stages.explaining.svg import STYLE

PLOT_STYLE = (
    STYLE
    + """
svg { --own: #2f6fde; --native: #6e7781; --inherited: #b35900; --tolerance: #1a7f37; --culprit: #cf222e; --time: #8250df;
  --rate: #1b7f79; }
@media (prefers-color-scheme: dark) { svg { --own: #6cb0ff; --native: #9198a1; --inherited: #e3b341; --tolerance: #56d364;
  --culprit: #ff7b72; --time: #b392f0; --rate: #39c5cf; } }
.own { fill: var(--own); } .native { fill: none; stroke: var(--native); stroke-width: 3; }
.inherited { fill: none; stroke: var(--inherited); stroke-width: 3; stroke-dasharray: 9 6; }
.tolerance { fill: none; stroke: var(--tolerance); stroke-width: 3; }
.culprit { fill: var(--culprit); stroke: var(--ground); stroke-width: 2; } .grid { stroke: var(--line); stroke-width: 0.5; }
.same { fill: var(--ground); stroke: var(--own); stroke-width: 3; } .word { fill: var(--culprit);
  paint-order: stroke; stroke: var(--ground); stroke-width: 6px; }
svg.plot { display: block; max-width: 38rem; height: auto; --ground: #ffffff; } .plot .paper { fill: none; }
@media (prefers-color-scheme: dark) { svg.plot { --ground: #14171a; } }
"""
)
