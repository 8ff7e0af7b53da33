"""What the rehearsal's page says and how it looks: HTML without script, in English.

Owns markup and style. Everything that comes from elsewhere is escaped here. Must not know HTTP.
"""

from html import escape
from typing import Any

Object = dict[str, Any]

SPEEDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
REFRESH_S = 5

STYLE = """\
:root { color-scheme: light dark; --line: #8886; --quiet: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 0; }
p { margin: .35rem 0; max-width: 46rem; }
.bar { display: flex; flex-wrap: wrap; gap: 1rem; align-items: end; border-block: 1px solid var(--line); padding: .75rem 0; }
.bar form { display: flex; gap: .5rem; align-items: end; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; margin: 1rem 0; }
article.on { border-width: 3px; }
header { display: flex; flex-wrap: wrap; gap: .75rem; align-items: baseline; justify-content: space-between; }
.state { background: var(--quiet); border-radius: 1rem; padding: .1rem .7rem; }
ol { margin: .5rem 0; padding: .5rem .75rem; list-style: none; background: var(--quiet); border-radius: .35rem; }
time { font-variant-numeric: tabular-nums; margin-right: .75rem; }
button, select, input { font: inherit; padding: .35rem .9rem; min-height: 2.25rem; }
button { cursor: pointer; }
:focus-visible { outline: 3px solid Highlight; outline-offset: 2px; }
.notice { border-left: .35rem solid currentColor; padding-left: .75rem; }
"""


def document(title: str, body: str) -> bytes:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    style = '<link rel="stylesheet" href="/page.css">'
    return (
        f'<!doctype html><html lang="en"><head>{head}<title>{escape(title)}</title>{style}</head>'
        f"<body>{body}</body></html>\n"
    ).encode()


def sign_in(notice: str = "") -> bytes:
    """How to get in: a link, or the token."""
    body = (
        "<main><h1>The rehearsal’s scenarios</h1>" + _notice(notice) + "<p>Ask for a link with "
        "<code>manage.py scenario page</code>, or enter the token of the rehearsal’s kubeconfig.</p>"
        '<form method="post" action="/sign-in"><p><label>Token<br>'
        '<input type="password" name="token" autocomplete="off" required></label></p>'
        "<button>Sign in</button></form></main>"
    )
    return document("Sign in – rehearsal", body)


def scenarios(described: Object, form_token: str, notice: str = "") -> bytes:
    """The whole page; `described` as the switchboard describes it."""
    speed = described["speed"]
    on = described["on"]
    count = "No scenario is on." if not on else f"{on} scenario{'s' if on > 1 else ''} on."
    options = "".join(
        f'<option value="{s:g}"{" selected" if s == speed else ""}>{s:g} times</option>'
        for s in sorted({*SPEEDS, float(speed)})
    )
    hidden = f'<input type="hidden" name="form" value="{escape(form_token)}">'
    parts = [
        "<main><h1>The rehearsal’s scenarios</h1>",
        "<p>Stories to practise on. This page belongs to the rehearsal cluster; Vigie knows nothing of it.</p>",
        _notice(notice),
        f'<div class="bar"><p role="status">{count} Cluster time: {escape(_clock(described["now"]))}</p>',
        f'<form method="post" action="/speed">{hidden}<label>Speed<br><select name="speed">{options}</select></label>',
        '<button>Set</button></form><p><a href="/">Look again</a></p>',
        f'<form method="post" action="/sign-out">{hidden}<button>Sign out</button></form></div>',
        *(_scenario(s, hidden) for s in described["scenarios"]),
        "</main>",
    ]
    return document("Scenarios – rehearsal", "".join(parts))


def _scenario(scenario: Object, hidden: str) -> str:
    name, state = escape(scenario["name"]), scenario["state"]
    off = state == "off"
    verb = "Start" if off else "Stop and undo"
    action = f"/scenarios/{name}/{'start' if off else 'stop'}"
    lines = "".join(
        f"<li><time>{escape(_clock(line['at']))}</time>{escape(line['text'])}</li>" for line in scenario["lines"]
    )
    return (
        f'<article class="{"off" if off else "on"}" aria-labelledby="{name}"><header>'
        f'<h2 id="{name}">{escape(scenario["title"])}</h2><span class="state">{escape(state)}</span></header>'
        f"<p>{escape(scenario['description'])}</p><p><strong>Look at:</strong> {escape(scenario['look'])}</p>"
        f"<p>Unfolds within about {duration(scenario['unfolds_s'])} at this speed. <code>{name}</code></p>"
        + (f"<ol>{lines}</ol>" if lines else "")
        + f'<form method="post" action="{action}">{hidden}<button aria-describedby="{name}">{verb}</button></form>'
        "</article>"
    )


def _notice(text: str) -> str:
    return f'<p class="notice" role="alert">{escape(text)}</p>' if text else ""


def _clock(stamp: str) -> str:
    """The time of day of a stamp."""
    return stamp[11:19]


def duration(seconds: float) -> str:
    """Seconds as people say them: 45 s, 2 min 30 s."""
    whole = max(1, round(seconds))
    minutes, rest = divmod(whole, 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"
