"""What the extension module shows to Python; stubtest holds it against the built module."""

from typing import TypedDict, type_check_only

__all__ = ["build_info"]

@type_check_only
class BuildInfo(TypedDict):
    version: str
    arch: str
    os: str
    debug_assertions: bool

def build_info() -> BuildInfo: ...
