"""A run's three digests computed by hand, as docs/records.md explains them. Nothing here comes from plimsoll."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

Fields = list[tuple[str, str | int | bool | bytes]]


def value(content: bytes) -> bytes:
    """A length of eight bytes, big-endian, and then the content."""
    return len(content).to_bytes(8, "big") + content


def digest(domain: str, fields: Fields) -> str:
    """SHA-256 over the domain and then each field's name and content."""
    text = value(domain.encode())
    for name, content in fields:
        if isinstance(content, bool):
            content = "true" if content else "false"
        raw = content if isinstance(content, bytes) else str(content).encode()
        text += value(name.encode()) + value(raw)
    return hashlib.sha256(text).hexdigest()


def request_digest(request: dict[str, Any]) -> str:
    """The digest of a request from its JSON form, a session's call included."""
    rule = request.get("softwareRule", {})
    identities = rule.get("identities", [])
    return digest(
        "plimsoll.run-request.v2",
        [
            ("protocol", request["protocol"]),
            ("minimum_isolation", request.get("minimumIsolation", "")),
            ("timeout_ms", request.get("timeoutMs", 0)),
            ("software_mode", rule.get("mode", "")),
            *counted("software_identities", [[("software_identity", one)] for one in identities]),
            *asked(request),
        ],
    )


def asked(request: dict[str, Any]) -> Fields:
    """The kind and its own fields."""
    if "javascript" in request:
        snippet = request["javascript"]
        return [
            ("kind", "javascript"),
            ("code", snippet.get("code", "")),
            ("grant_profile", snippet.get("grantProfile", "")),
        ]
    if "project" in request:
        project = request["project"]
        return [
            ("kind", "project"),
            ("grant_profile", project.get("grantProfile", "")),
            *files(project),
            *counted("steps", [[("step_command", step)] for step in project.get("steps", [])]),
            *counted("artifacts", [[("artifact_path", path)] for path in project.get("artifacts", [])]),
        ]
    cell = request["cell"]
    return [("kind", "cell"), ("language", cell["language"]), ("code", cell.get("code", "")), *files(cell)]


def files(payload: dict[str, Any]) -> Fields:
    """The files of a project or a cell, in their order."""
    pairs = [(file["path"], file.get("content", "")) for file in payload.get("files", [])]
    return counted("files", [[("file_path", path), ("file_content", content)] for path, content in pairs])


def counted(name: str, entries: list[Fields]) -> Fields:
    """A list: its length under its name, and then the fields of each entry."""
    return [(name, len(entries)), *(field for entry in entries for field in entry)]


def result_digest(answer: dict[str, Any]) -> str:
    """The digest of a result, from the JSON form of the answer."""
    return digest("plimsoll.run-result.v1", came_back(answer))


def came_back(answer: dict[str, Any]) -> Fields:
    """The kind and its own fields."""
    if "javascript" in answer:
        return [("kind", "javascript"), *ended(answer["javascript"])]
    if "cell" in answer:
        cell = answer["cell"]
        return [
            ("kind", "cell"),
            *ended(cell),
            ("interpreter_started", cell.get("interpreterStarted", False)),
            ("interpreter_ended", cell.get("interpreterEnded", False)),
        ]
    project = answer["project"]
    return [
        ("kind", "project"),
        ("outcome", outcome(project.get("outcome", 0))),
        ("outcome_detail", project.get("outcomeDetail", "")),
        ("artifacts_truncated", project.get("artifactsTruncated", False)),
        *counted("steps", [step_fields(step) for step in project.get("steps", [])]),
        *counted("artifacts", [artifact_fields(artifact) for artifact in project.get("artifacts", [])]),
    ]


def ended(result: dict[str, Any]) -> Fields:
    """How a program ended and what it wrote: a snippet, a cell, or one step."""
    return [
        ("exit_code", result.get("exitCode", 0)),
        ("timed_out", result.get("timedOut", False)),
        ("stdout", base64.b64decode(result.get("stdout", ""))),
        ("stderr", base64.b64decode(result.get("stderr", ""))),
        ("stdout_truncated", result.get("stdoutTruncated", False)),
        ("stderr_truncated", result.get("stderrTruncated", False)),
    ]


def step_fields(step: dict[str, Any]) -> Fields:
    """One step of a project."""
    return [("step_command", step.get("command", "")), *((f"step_{name}", content) for name, content in ended(step))]


def artifact_fields(artifact: dict[str, Any]) -> Fields:
    """One file that came back."""
    return [
        ("artifact_path", artifact["path"]),
        ("artifact_content", base64.b64decode(artifact.get("content", ""))),
    ]


# In the order of their numbers, which are what is digested.
OUTCOMES = ["UNSPECIFIED", "COMPLETED", "SETUP_FAILED", "TIMED_OUT", "PROTOCOL_ERROR", "RUNNER_FAILED"]


def outcome(named: str | int) -> int:
    """The number of an outcome, which JSON gives by its name."""
    return named if isinstance(named, int) else OUTCOMES.index(named.removeprefix("PROJECT_OUTCOME_"))


def rule_id(rule: dict[str, Any]) -> str:
    """What a record calls the software rule of its request."""
    identities = rule.get("identities", [])
    if not rule.get("mode"):
        return ""
    if len(identities) == 1:
        return f"exact:{identities[0]}"
    joined = b"\0".join(sorted(identity.encode() for identity in identities))
    return f"approved:sha256:{hashlib.sha256(joined).hexdigest()}"


def fingerprint(session_id: str) -> str:
    """What a record calls the session of its call."""
    return hashlib.sha256(session_id.encode()).hexdigest()


# Name in the digest and name in the JSON record, in the order of record version 4.
RECORD_FIELDS = [
    ("request_sha256", "requestSha256"),
    ("result_sha256", "resultSha256"),
    ("unanswered", "unanswered"),
    ("provider", "provider"),
    ("isolation", "isolation"),
    ("environment", "environment"),
    ("policy", "policy"),
    ("software_identity", "softwareIdentity"),
    ("software_rule_id", "softwareRuleId"),
    ("instance", "instance"),
    ("started_unix_ms", "startedUnixMs"),
    ("ended_unix_ms", "endedUnixMs"),
    ("session", "session"),
    ("sequence", "sequence"),
    ("previous_sha256", "previousSha256"),
]

NUMBERS = ("startedUnixMs", "endedUnixMs", "sequence")


def record_digest(record: dict[str, Any]) -> str:
    """The record's own digest, from its JSON form; an absent member counts as empty or zero."""
    fields = [(name, record.get(member, 0 if member in NUMBERS else "")) for name, member in RECORD_FIELDS]
    return digest("plimsoll.run-record.v4", fields)
