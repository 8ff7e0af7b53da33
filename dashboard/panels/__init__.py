"""View models: what a screen shows, made from the picture's rows by pure functions.

Each panel is mirrored by a module of `frontend/static/js/panels/` that makes the same texts from the same rows when they change;
the fixtures of `tests/data/panels` hold both sides to the same words. No markup, no Django requests, no clock: ages and times are
`Age` and `Clock` values that get their words when they are rendered.
"""
