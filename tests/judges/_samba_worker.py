"""Worker of the Windows judge: answers access questions with Samba, one JSON line in, one JSON line out.

Runs under the interpreter that the samba package was built for, and imports nothing but samba.
Request: {"descriptors": [SDDL...], "tokens": [[SID...]...], "ask": [[descriptor, token, mask]...]}.
Answer: {"answers": [bool...]} or {"error": text}.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from samba import NTSTATUSError
from samba.dcerpc import security
from samba.security import access_check

ACCESS_DENIED = 0xC0000022
DOMAIN = security.dom_sid("S-1-5-21-1-2-3")


def descriptor(sddl: str) -> Any:
    """Parsed descriptor, after a check that the reader dropped no ACE, flag or mask."""
    parsed = security.descriptor.from_sddl(sddl, DOMAIN)
    written = [ace.split(";") for ace in sddl[sddl.index("D:") :].replace(")", "").split("(")[1:]]
    aces = parsed.dacl.aces if parsed.dacl else []
    if len(aces) != len(written):
        raise ValueError("ACE lost while reading " + sddl)
    bits = {"OI": 1, "CI": 2, "NP": 4, "IO": 8, "ID": 16}
    for ace, (_, flags, mask, _, _, sid) in zip(aces, written, strict=True):
        wanted = sum(bits[flags[at : at + 2]] for at in range(0, len(flags), 2))
        if (ace.flags, ace.access_mask & 0xFFFFFFFF, str(ace.trustee)) != (wanted, int(mask, 16), sid):
            raise ValueError("ACE misread in " + sddl)
    return parsed


def allowed(parsed: Any, sids: list[str], mask: int) -> bool:
    """True where the access check of Samba grants the whole mask."""
    token = security.token()
    token.sids = [security.dom_sid(sid) for sid in sids]
    token.num_sids = len(sids)  # setting the list alone leaves a token without SIDs
    try:
        access_check(parsed, token, mask)
    except NTSTATUSError as error:
        if error.args[0] & 0xFFFFFFFF != ACCESS_DENIED:
            raise
        return False
    return True


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        try:
            request = json.loads(line)
            parsed = [descriptor(text) for text in request["descriptors"]]
            reply = {"answers": [allowed(parsed[d], request["tokens"][t], mask) for d, t, mask in request["ask"]]}
        except Exception as error:  # the caller raises it
            reply = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
