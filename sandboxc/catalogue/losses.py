"""Codes 4xx: what a target cannot hold, one block of rows a target."""

from sandboxc.catalogue import CodeInfo
from sandboxc.catalogue.losses_bwrap import BWRAP_ROWS
from sandboxc.catalogue.losses_landlock import LANDLOCK_ROWS
from sandboxc.catalogue.losses_seatbelt import SEATBELT_ROWS
from sandboxc.catalogue.losses_shared import SHARED_ROWS
from sandboxc.catalogue.losses_windows import WINDOWS_ROWS

ROWS: tuple[CodeInfo, ...] = (*SHARED_ROWS, *SEATBELT_ROWS, *BWRAP_ROWS, *LANDLOCK_ROWS, *WINDOWS_ROWS)
