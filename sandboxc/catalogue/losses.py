"""Codes 4xx: what a target cannot hold."""

from sandboxc.catalogue import CodeInfo

ROWS: tuple[CodeInfo, ...] = ()
