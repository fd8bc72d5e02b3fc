"""The JSON Schema and the decoder give the same yes or no on every fixture."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sandboxc.frontend.decode import KEYS, LATER_KEYS, decode
from sandboxc.frontend.entries import ENTRY_KEYS, PARAMETER_KEYS, TEST_KEYS, WAIVER_KEYS
from sandboxc.frontend.reader import BOOLEAN, INTEGER, NOTHING, scalar_type
from sandboxc.frontend.yaml_nodes import Mapping, Node, Sequence, parse
from sandboxc.loader import source_of_bytes
from sandboxc.packaged import data
from sandboxc.places import BUILTIN_PARAMETERS, INTERNAL_PARAMETERS
from sandboxc.source import SourceFile

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "policies"
SCHEMA: dict[str, Any] = json.loads((ROOT / "schemas" / "policy.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

#: What the decoder refuses and JSON Schema cannot state: code -> why.
SCHEMA_CANNOT = {
    **dict.fromkeys(("SBX311", "SBX312", "SBX313", "SBX314", "SBX315"), "reads path texts"),
    **dict.fromkeys(("SBX316", "SBX317", "SBX318", "SBX319", "SBX320", "SBX321"), "reads path texts"),
    **dict.fromkeys(("SBX322", "SBX323", "SBX219"), "reads path texts"),
    **dict.fromkeys(("SBX330", "SBX331", "SBX332", "SBX333", "SBX334", "SBX335"), "reads patterns"),
    "SBX221": "compares a waiver with the list of targets",
}
#: Single fixtures whose code the schema can state in other cases.
SCHEMA_CANNOT_FIXTURES = {
    "SBX216-control": "control characters in texts",
    "SBX217-add-remove": "compares two lists",
}


def plain(node: Node) -> Any:
    """Return the JSON value of a source tree, typed as the decoder types it."""
    if isinstance(node, Mapping):
        return {key.text: plain(value) for key, value in node.pairs}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    kind = scalar_type(node)
    if kind == BOOLEAN:
        return node.text == "true"
    if kind == INTEGER:
        return int(node.text)
    return None if kind == NOTHING else node.text


def read(path: Path) -> tuple[SourceFile | None, set[str]]:
    """Return the source of a fixture and the codes that reading it gives."""
    source, digest, found = source_of_bytes(path.name, path.read_bytes())
    if source is not None and not found:
        _, found = decode(source, digest)
    return source, {item.code for item in found}


def fixtures(kind: str) -> list[Any]:
    """Return the fixture files of one kind as test parameters."""
    return [pytest.param(path, id=path.stem) for path in sorted((FIXTURES / kind).glob("*.yaml"))]


def test_schema_is_valid_draft_07() -> None:
    """The schema is itself a correct draft-07 schema."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert SCHEMA["$id"].endswith(":1")


@pytest.mark.parametrize("path", fixtures("valid"))
def test_valid_fixture_is_accepted_by_both(path: Path) -> None:
    """A valid policy decodes without a diagnostic and satisfies the schema."""
    source, codes = read(path)
    assert codes == set()
    assert source is not None
    root = parse(source).root
    assert root is not None
    assert [error.message for error in VALIDATOR.iter_errors(plain(root))] == []


@pytest.mark.parametrize("path", fixtures("invalid"))
def test_invalid_fixture_is_refused_with_its_code(path: Path) -> None:
    """An invalid policy gives the code in its file name and no other; the schema refuses it where it can."""
    source, codes = read(path)
    code = path.name[:6]
    assert codes == {code}
    if code.startswith("SBX1"):
        return  # there is no tree that a schema could look at
    assert source is not None
    root = parse(source).root
    assert root is not None
    refused = not VALIDATOR.is_valid(plain(root))
    cannot = code in SCHEMA_CANNOT or path.stem in SCHEMA_CANNOT_FIXTURES
    assert refused is not cannot


def walk(schema: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Return every object inside a schema with its path."""
    found: list[tuple[str, dict[str, Any]]] = []
    if isinstance(schema, dict):
        found.append((path, schema))
        for key, value in schema.items():
            found += walk(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            found += walk(value, f"{path}/{index}")
    return found


def test_every_property_is_described_and_every_object_closed() -> None:
    """Each property and each word has a description; no object of the policy takes unknown keys."""
    for path, schema in walk(SCHEMA):
        if any(f"/{word}/" in path + "/" for word in ("if", "then", "else", "propertyNames")):
            continue  # conditions repeat properties that are described elsewhere
        properties = schema.get("properties")
        if isinstance(properties, dict) and schema.get("type") == "object":
            for name, value in properties.items():
                assert value.get("description"), f"{path}/{name}"
        if "const" in schema:
            assert schema.get("description"), path
        if schema.get("type") == "object" and "description" in schema:
            assert "additionalProperties" in schema, path


def test_keys_agree() -> None:
    """Schema and decoder know the same keys and names."""
    entry = SCHEMA["definitions"]["entry"]["properties"]
    properties = SCHEMA["properties"]
    names = properties["parameters"]["propertyNames"]["not"]["enum"]
    services = properties["macos"]["properties"]["services"]["items"]["oneOf"]
    assert set(properties) == {*KEYS, *LATER_KEYS}
    assert set(entry) == set(ENTRY_KEYS)
    assert set(properties["waive"]["items"]["properties"]) == set(WAIVER_KEYS)
    assert set(properties["tests"]["items"]["properties"]) == set(TEST_KEYS)
    assert set(properties["parameters"]["additionalProperties"]["properties"]) == set(PARAMETER_KEYS)
    assert set(names) == {*BUILTIN_PARAMETERS, *INTERNAL_PARAMETERS}
    assert {item["const"] for item in services} == set(data("macos_services")["services"])


def test_all_errors_of_one_run_are_reported() -> None:
    """Faults of several keys are all reported, in the order of their places."""
    text = "sandboxc: 2\nmode: rw\nnetwrk: x\nentries:\n  - {path: x, access: none}\n"
    policy, found = decode(SourceFile("p.yaml", text), "")
    assert policy is None
    assert [item.code for item in found] == ["SBX205", "SBX203", "SBX201", "SBX313", "SBX203"]
