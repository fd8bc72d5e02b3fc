"""The plan as text: JSON with one step a line, and the two PowerShell scripts."""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256

from sandboxc import packaged
from sandboxc.emitters.artefact import Options
from sandboxc.emitters.windows.capability import TARGET
from sandboxc.emitters.windows.plan import CREATE, DIRECTORY, FILE, SKIP, Plan, Step
from sandboxc.emitters.windows.sddl import Ace
from sandboxc.emitters.windows.sids import (
    EVERYONE,
    GUARD_RULE,
    LOGON,
    ROOT_RULE,
    USERS,
    canonical_path,
    derive_sid,
    native,
    root_sid,
    sid_name,
)
from sandboxc.facts import Facts
from sandboxc.globs import Glob
from sandboxc.layers import Layer, Layers
from sandboxc.losses import Loss, apply_waivers
from sandboxc.places import BUILTIN_PARAMETERS, RUN_TMP, Place
from sandboxc.policy import WRITE
from sandboxc.records import Any

FORMAT_VERSION = 1
PLAN = "windows.json"
APPLY = "windows-apply.ps1"
UNDO = "windows-undo.ps1"


def plan_data(
    plan: Plan, stack: Layers, facts: Facts, options: Options, losses: Iterable[Loss], expanded: bool
) -> dict[str, Any]:
    """Return the plan as the JSON object of ``windows.json``; ``expanded`` says whether patterns became steps."""
    private = {layer.where for layer in stack.layers if layer.private}
    own = [place for place in plan.roots if place.root == RUN_TMP or place in private]
    temp = native(own[0]) if private and own else ""
    return {
        "format_version": FORMAT_VERSION,
        "facts": {"fold_case": facts.fold_case},
        "token": _token(plan, stack, options.windows_reads, own if private else []),
        "sids": _sids(plan),
        "steps": [_step(step, number) for number, step in enumerate(plan.steps, 1)],
        "locks": [native(place) for place in _locks(stack)],
        "optional": _optional(plan, stack),
        "unexpanded": [] if expanded else _patterns(stack),
        "environment": {"TEMP": temp, "TMP": temp} if temp else {},
        "losses": [_loss(loss) for loss in apply_waivers(losses, options.waivers, TARGET).losses],
    }


def _locks(stack: Layers) -> list[Place]:
    """Return the places that a lock keeps from being writable, whatever a parameter is bound to."""
    found = (layer.where for layer in stack.layers if layer.locked and layer.access != WRITE)
    return sorted({where for where in found if isinstance(where, Place)})


def _optional(plan: Plan, stack: Layers) -> list[str]:
    """Return the parameters whose steps are left out where they have no value."""
    roots = {place.root for step in plan.steps for place in (step.place, *step.below)}
    roots |= {place.root for place in _locks(stack)}
    return sorted(root for root in roots if not BUILTIN_PARAMETERS.get(root, True))


def _patterns(stack: Layers) -> list[str]:
    """Return the patterns that need a tree to become steps."""
    found: set[str] = set()
    for layers in (stack.layers, *(ceiling.layers for ceiling in stack.ceilings)):
        found |= {layer.describe() for layer in layers if isinstance(layer.where, Glob) and layer.where.anchor}
    return sorted(found)


def _token(plan: Plan, stack: Layers, reads: str, own: list[Place]) -> dict[str, Any]:
    if not stack.confines:
        return {"flags": [], "restricting_sids": [], "default_dacl": []}
    flags = ["DISABLE_MAX_PRIVILEGE", "LUA_TOKEN"]
    sids = [LOGON, EVERYONE]
    if reads == "strict":
        sids.append(USERS)
    else:
        flags.append("WRITE_RESTRICTED")
    sids += [root_sid(place) for place in sorted(plan.roots, key=sid_name)]
    if plan.guard:
        sids.append(plan.guard)
    holder = root_sid(own[0]) if own else LOGON
    return {
        "flags": flags,
        "restricting_sids": sids,
        "default_dacl": [Ace("A", "", 0x1F01FF, holder).text()],
    }


def _sids(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = {
        "everyone": {"sid": EVERYONE, "derived": "well known"},
        "logon": {"sid": None, "derived": "the logon SID of the token that is restricted"},
    }
    if plan.guard:
        found["guard"] = {"sid": plan.guard, "derived": f"{GUARD_RULE}: the refusals of this plan"}
    for place in plan.roots:
        derived = f"{ROOT_RULE}: the canonical path of {native(place)}"
        sid = derive_sid(canonical_path(place)) if place.is_bound else None
        found[sid_name(place)] = {"sid": sid, "derived": derived, "path": native(place)}
    return dict(sorted(found.items()))


def step_id(number: int) -> str:
    """Return the id of the step with this number, counted from 1."""
    return f"s{number:04d}"


def _step(step: Step, number: int) -> dict[str, Any]:
    ace = step.ace.on_file() if step.kind == FILE else step.ace
    other = step.ace if step.kind == FILE else step.ace.on_file()
    assert ace is not None
    data: dict[str, Any] = {
        "id": step_id(number),
        "path": native(step.place),
        "object": step.kind,
        "ace": ace.text(),
        "inherit": _inherit(ace),
        "why": _why(step.layer),
        "undo": {"remove_ace": ace.text(), "sid": ace.sid},
    }
    if not step.known:
        data["assumed"] = True
        data["otherwise"] = other.text() if other else None
    if step.absent != SKIP:
        data["absent"] = {"make": step.occupant, "content": step.content, "when": step.absent}
        if step.absent != CREATE:
            data["undo"]["remove_made"] = True
    if step.link:
        data["link"] = True
    if step.below:
        data["below"] = [native(root) for root in step.below]
        data["strictly"] = step.strictly
    if step.chain:
        data["chain"] = True
    if step.reason and step.kind == DIRECTORY:
        data["propagates"] = {"root": native(step.place), "reason": step.reason}
    return data


def _inherit(ace: Ace) -> str:
    return {"": "none", "OICI": "this object and below", "OICIIO": "below only"}[ace.flags]


def _why(layer: Layer) -> dict[str, Any]:
    data = {"layer": layer.describe(), "access": layer.access, "origin": layer.origin}
    return {**data, "span": str(layer.span)} if layer.span else data


def _loss(loss: Loss) -> dict[str, Any]:
    data: dict[str, Any] = {"code": loss.code, "kind": loss.kind, "at": loss.at, "message": loss.message}
    if loss.span:
        data["span"] = str(loss.span)
    for word in ("preset", "conditional", "standing", "waived"):
        if getattr(loss, word):
            data[word] = getattr(loss, word)
    return data


def to_json(data: Mapping[str, Any]) -> str:
    """Return the plan's JSON text: keys of the top level in order, one step, SID or loss a line, final newline."""
    parts: list[str] = []
    for key, value in data.items():
        parts.append(f"{json.dumps(key)}: {_value(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _value(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join("  " + _line(item) for item in value) + "\n]"
    if isinstance(value, dict) and any(isinstance(item, (dict, list)) for item in value.values()):
        rows = (f"  {json.dumps(key, ensure_ascii=False)}: {_line(item)}" for key, item in value.items())
        return "{\n" + ",\n".join(rows) + "\n}"
    return _line(value)


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


# -- PowerShell ------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Return a PowerShell expression, all of it ASCII, whose value is exactly ``text``.

    Printable ASCII stands in single quotes, a quote doubled; nothing is expanded there. PowerShell also takes four
    typographic characters for a single quote, and Windows PowerShell reads a file without a byte order mark
    in the code page of the machine, so every other character is written as its UTF-16 number.
    """
    pieces: list[str] = []
    plain = ""
    for char in text:
        if " " <= char <= "~":
            plain += "''" if char == "'" else char
            continue
        if plain:
            pieces.append(f"'{plain}'")
            plain = ""
        units = char.encode("utf-16-le", "surrogatepass")
        pieces += [
            f"[string][char]0x{int.from_bytes(units[at : at + 2], 'little'):04x}" for at in range(0, len(units), 2)
        ]
    if plain or not pieces:
        pieces.append(f"'{plain}'")
    return pieces[0] if pieces == [f"'{plain}'"] else "(" + " + ".join(pieces) + ")"


def scripts(data: Mapping[str, Any], text: str) -> dict[str, str]:
    """Return the apply and undo scripts of a plan object and its JSON text, by file name.

    Every text of the plan goes through ``quoted``; the templates hold no other way in.
    """
    import jinja2  # only here: nothing that loads or runs a profile may need it

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 -- PowerShell, not HTML; values arrive quoted
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    values = {
        "steps": [_script_step(step) for step in data["steps"]],
        "root_rule": quoted(ROOT_RULE),
        "optional": _array(data["optional"]),
        "unexpanded": str(len(data["unexpanded"])),
        "locks": _array(data["locks"]),
        "roots": _array(item["path"] for item in data["sids"].values() if "path" in item),
        "plan": quoted(sha256(text.encode()).hexdigest()[:32]),
        "common": packaged.text("templates", "windows_common.ps1"),
    }
    found: dict[str, str] = {}
    for name, template in ((APPLY, "windows_apply.ps1.j2"), (UNDO, "windows_undo.ps1.j2")):
        found[name] = environment.from_string(packaged.text("templates", template)).render(values)
    return found


def _script_step(step: Mapping[str, Any]) -> dict[str, str]:
    """Return one step with every value as a PowerShell expression."""
    forms = {step["object"]: step["ace"], _other(step["object"]): step.get("otherwise", "")}
    absent = step.get("absent", {"make": "", "content": "", "when": SKIP})
    return {
        "id": quoted(step["id"]),
        "path": quoted(step["path"]),
        "object": quoted("link" if step.get("link") else "any" if step.get("assumed") else step["object"]),
        "directory_ace": quoted(forms[DIRECTORY] or ""),
        "file_ace": quoted(forms[FILE] or ""),
        "when": quoted(absent["when"]),
        "make": quoted(absent["make"]),
        "content": quoted(absent["content"]),
        "below": _array(step.get("below", ())),
        "strictly": "$true" if step.get("strictly") else "$false",
        "chain": "$true" if step.get("chain") else "$false",
    }


def _array(texts: Iterable[str]) -> str:
    return "@(" + ", ".join(quoted(text) for text in texts) + ")"


def _other(kind: str) -> str:
    return FILE if kind == DIRECTORY else DIRECTORY
