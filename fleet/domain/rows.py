"""The base of every row of the picture.

Owns nothing else: modules that have rows of their own need it without the whole picture.
"""

from msgspec import Struct


class Row(Struct, frozen=True, gc=False):
    """Base of all rows. `gc=False`: they are trees, and a large fleet has hundreds of thousands of them."""
