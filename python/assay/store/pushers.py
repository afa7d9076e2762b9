"""Who pushed a version: `user@host`, the content of its ref, which was empty in stores before.

It is not in the manifest, where the same item pushed by two would be two versions: the ref is that
of the first of them. A redacted item names nobody.
"""

from __future__ import annotations

import getpass
import os
import platform
from typing import Final

from assay.store.layout import Store, ref_key
from assay.store.refs import Ref

_MOST_BYTES: Final = 256


def this_pusher() -> str:
    """Who runs this process, on which machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number without a name.
        user = str(os.getuid())
    return f"{user}@{platform.node() or 'unknown'}"


def pusher_of(store: Store, ref: Ref) -> str | None:
    """Who pushed a version; None where nobody is named."""
    content = store.backend.read(ref_key(ref.kind, ref.name, ref.manifest)) or b""
    try:
        text = content[:_MOST_BYTES].decode()
    except UnicodeDecodeError:
        return None
    # A store is input: what is no name is not shown as one.
    return text if text.isprintable() and text else None
