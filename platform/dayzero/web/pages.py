"""Pages for people. Jinja escapes every value; the pages work without JavaScript and load nothing but a plan's picture."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from jinja2 import DictLoader, Environment, StrictUndefined

from dayzero.domain.canonical import Json, plain
from dayzero.domain.entry import CompatibilityEntry

Row = Mapping[str, object]

_LAYOUT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: #1a7f37; --bad: #cf222e; --half: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #ff7b72; --half: #d29922; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem; border-bottom: 1px solid var(--line); }
td { overflow-wrap: anywhere; }
thead th { background: var(--soft); font-weight: 600; }
.scroll { overflow-x: auto; }
.verified, .pass, .meets_floor { color: var(--good); font-weight: 600; }
.failing, .fail, .blocked { color: var(--bad); font-weight: 600; }
.functional, .stale, .error { color: var(--half); font-weight: 600; }
.problem { border-left: 4px solid var(--bad); padding: .3rem .8rem; background: var(--soft); }
input[type=text] { width: min(40rem, 70%); font: inherit; padding: .25rem .4rem; }
button { font: inherit; padding: .25rem .8rem; }
small, .dim { opacity: .75; }
img.plan { display: block; width: 100%; max-width: 45rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--soft); padding: .7rem; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% if problem %}<p class="problem" role="alert">{{ problem }}</p>{% endif %}
{% block main %}{% endblock %}
</body>
</html>
"""

_LIST = """\
{% extends "layout" %}
{% block main %}
<form method="get" action="/">
<label for="filter">Filter</label>
<input type="text" id="filter" name="filter" value="{{ filter }}" placeholder='platform = "cpu" and correctness = "verified"'>
<button>Show</button>
<small><a href="/v1/compat?filter={{ filter | urlencode }}">as JSON</a></small>
</form>
<div class="scroll"><table>
<thead><tr><th>Model</th><th>Platform</th><th>Lifecycle</th><th>Correctness</th><th>Performance</th><th>Freshness</th>
<th>Why</th><th>Evidence</th><th>Plan</th></tr></thead>
<tbody>
{% for row in rows %}
<tr>
<td><a href="/compat/{{ row.entry_id | urlencode }}">{{ row.model }}</a></td>
<td>{{ row.platform }}</td>
{% for name in ("lifecycle", "correctness", "performance", "freshness") %}
<td class="{{ row[name] }}">{{ row[name] }}</td>
{% endfor %}
<td>{{ row.reason }}</td>
<td>{{ row.evidence or row.grade }}</td>
<td>{{ row.plan }}, {{ row.dtype }}{% if row.mode != "inference" %}, {{ row.mode }}{% endif %}</td>
</tr>
{% else %}
<tr><td colspan="9" class="dim">No entry matches.</td></tr>
{% endfor %}
</tbody>
</table></div>
<details><summary>Columns that a filter may name</summary>
<dl>{% for name, meaning in columns %}<dt><code>{{ name }}</code></dt><dd>{{ meaning }}</dd>{% endfor %}</dl>
</details>
{% endblock %}
"""

_ENTRY = """\
{% extends "layout" %}
{% block main %}
<p><a href="/">All entries</a></p>
{% if entry %}
<p>{{ entry.reason }}</p>
<p>Evidence: {{ entry.evidence or entry.grade }}</p>
<h2>Checks</h2>
<div class="scroll"><table>
<thead><tr><th>Layer</th><th>Check</th><th>Plan</th><th>Verdict</th><th>Evidence</th><th>Measured</th><th>Tolerance</th>
<th>n</th><th>Why</th></tr></thead>
<tbody>
{% for check in entry.checks %}
<tr><td>{{ check.layer }}</td><td>{{ check.check }}</td><td>{{ check.rung }}</td>
<td class="{{ check.verdict }}">{{ check.verdict }}</td><td>{{ check.grade }}</td>
<td>{{ check.measured | known }}{% if check.unit and check.measured is not none %} {{ check.unit }}{% endif %}</td>
<td>{{ check.tolerance | known }}</td><td>{{ check.n | known }}</td><td>{{ check.reason }}</td></tr>
{% else %}
<tr><td colspan="9" class="dim">Nothing was checked.</td></tr>
{% endfor %}
</tbody></table></div>
{% if entry.missing_checks %}<p>Not shown: {{ entry.missing_checks | join(", ") }}</p>{% endif %}
{% if entry.gaps %}<p>Operators that the platform lacks: {{ entry.gaps | join(", ") }}</p>{% endif %}
<h2>Measurements</h2>
<div class="scroll"><table>
<thead><tr><th>Figure</th><th>Value</th><th>Unit</th><th>Samples</th></tr></thead>
<tbody>
{% for figure in entry.measurements %}
<tr><td>{{ figure.name }}</td><td>{{ figure.value | known }}</td><td>{{ figure.unit }}</td><td>{{ figure.samples }}</td></tr>
{% else %}
<tr><td colspan="4" class="dim">Nothing was measured.</td></tr>
{% endfor %}
</tbody></table></div>
{% if drawn %}<h2>Plan</h2>
<img class="plan" src="/compat/{{ row.entry_id | urlencode }}/plan.svg"
 alt="Plan {{ row.plan }}: memory by rank and placement; the bundle's README has the figures">{% endif %}
{% if entry.sample_text %}<h2>What it says</h2><pre>{{ entry.sample_text }}</pre>{% endif %}
<h2>Columns</h2>
<div class="scroll"><table><tbody>
{% for name, value in row.items() %}<tr><th>{{ name }}</th><td>{{ value | known }}</td></tr>{% endfor %}
{% for name, value in entry.columns.items() %}<tr><th>{{ name }}</th><td class="{{ value }}">{{ value }}</td></tr>{% endfor %}
</tbody></table></div>
<p><small><a href="/v1/compat/{{ row.entry_id | urlencode }}">as JSON</a></small></p>
{% endif %}
{% endblock %}
"""


def list_page(rows: Sequence[Row], filter: str, columns: Sequence[tuple[str, str]], problem: str | None) -> str:
    """The list as a page: one row an entry, with the four columns; `problem` is what was wrong with the filter."""
    shown = [plain(row) for row in rows]
    page = _pages().get_template("list")
    return page.render(title="Compatibility", rows=shown, filter=filter, columns=columns, problem=problem)


def entry_page(row: Json, entry: CompatibilityEntry | None, problem: str | None, *, drawn: bool = False) -> str:
    """One entry as a page; without an entry, `problem` says why. `drawn`: there is a picture of its plan."""
    title = f"{entry.key.model} on {entry.key.platform}" if entry else "Entry"
    page = _pages().get_template("entry")
    return page.render(title=title, row=row, entry=plain(entry) if entry else None, problem=problem, drawn=drawn)


def _known(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@lru_cache(maxsize=1)
def _pages() -> Environment:
    templates = DictLoader({"layout": _LAYOUT, "list": _LIST, "entry": _ENTRY})
    pages = Environment(loader=templates, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    pages.filters["known"] = _known
    return pages
