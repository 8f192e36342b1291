"""A run's three digests computed by hand, as docs/records.md explains them. Nothing here comes from plimsoll."""

from __future__ import annotations

import base64
import hashlib
from typing import Any


def value(content: bytes) -> bytes:
    """A length of eight bytes, big-endian, and then the content."""
    return len(content).to_bytes(8, "big") + content


def digest(domain: str, fields: list[tuple[str, str | int | bool | bytes]]) -> str:
    """SHA-256 over the domain and then each field's name and content."""
    text = value(domain.encode())
    for name, content in fields:
        if isinstance(content, bool):
            content = "true" if content else "false"
        raw = content if isinstance(content, bytes) else str(content).encode()
        text += value(name.encode()) + value(raw)
    return hashlib.sha256(text).hexdigest()


def request_digest(request: dict[str, Any]) -> str:
    """The digest of a snippet request without a software rule, from its JSON form."""
    snippet = request["javascript"]
    return digest(
        "plimsoll.run-request.v2",
        [
            ("protocol", request["protocol"]),
            ("minimum_isolation", request.get("minimumIsolation", "")),
            ("timeout_ms", request.get("timeoutMs", 0)),
            ("software_mode", ""),
            ("software_identities", 0),
            ("kind", "javascript"),
            ("code", snippet["code"]),
            ("grant_profile", snippet.get("grantProfile", "")),
        ],
    )


def result_digest(answer: dict[str, Any]) -> str:
    """The digest of a snippet's result, from the JSON form of the answer."""
    result = answer["javascript"]
    return digest(
        "plimsoll.run-result.v1",
        [
            ("kind", "javascript"),
            ("exit_code", result.get("exitCode", 0)),
            ("timed_out", result.get("timedOut", False)),
            ("stdout", base64.b64decode(result.get("stdout", ""))),
            ("stderr", base64.b64decode(result.get("stderr", ""))),
            ("stdout_truncated", result.get("stdoutTruncated", False)),
            ("stderr_truncated", result.get("stderrTruncated", False)),
        ],
    )


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
