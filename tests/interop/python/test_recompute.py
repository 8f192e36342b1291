"""The hand-made digests come out at the published values, for every kind of run that this build answers."""

from __future__ import annotations

from typing import Any

import pytest

from recompute import fingerprint, request_digest, result_digest, rule_id

IDENTITIES = [f"oci-manifest:linux/amd64@sha256:{letter * 64}" for letter in "ab"]
RULE = {"mode": "approved", "identities": IDENTITIES}
SNIPPET = {
    "protocol": 4,
    "minimumIsolation": "container",
    "timeoutMs": 5000,
    "javascript": {"code": "console.log(1+1)"},
}
PROJECT = {
    "protocol": 4,
    "timeoutMs": 30_000,
    "project": {
        "files": [
            {"path": "main.js", "content": "console.log(require('./lib.js'))"},
            {"path": "lib.js", "content": "module.exports = 42"},
        ],
        "steps": ["node main.js > out.txt", "cat out.txt"],
        "artifacts": ["out.txt"],
    },
}
CELL = {
    "protocol": 4,
    "minimumIsolation": "container",
    "timeoutMs": 30_000,
    "cell": {
        "language": "python",
        "code": "import json\njson.loads(open('in.json').read())['n'] + 1",
        "files": [{"path": "in.json", "content": '{"n": 41}'}],
    },
}


@pytest.mark.parametrize(
    ("request_body", "expected"),
    [
        (SNIPPET, "3ac521c00d014d11e7dfaff3ada8a8b564a0ac93eadc72555a992faac7b8112f"),
        ({**SNIPPET, "softwareRule": RULE}, "d60ffa1a2c600acaa6cfcaed620d87d8a6e8657e2778027d4df6725878e111c3"),
        ({**SNIPPET, "traceId": "t-1"}, "3ac521c00d014d11e7dfaff3ada8a8b564a0ac93eadc72555a992faac7b8112f"),
        (PROJECT, "4539acba5789dc54fdcdd06e1c49788067f933fcab9bd7b29e9141676ca4bb14"),
        ({**PROJECT, "softwareRule": RULE}, "db7f9020738d2072d58b8691aed987fde11644bf130828fda52d79f225198b22"),
        ({"protocol": 4, "project": {}}, "c68098142130e141f5284c7acbd3ae938e75267a60f1e152f6bd8e851552e4e3"),
        (CELL, "91b78eeef54543c1a57dbbbb57d2c055c7c418a1f5353a1af76893a52f76c281"),
        ({**CELL, "sessionId": "0" * 32}, "91b78eeef54543c1a57dbbbb57d2c055c7c418a1f5353a1af76893a52f76c281"),
    ],
)
def test_a_request_has_its_published_digest(request_body: dict[str, Any], expected: str) -> None:
    assert request_digest(request_body) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            {"javascript": {"stdout": "Mgo=", "stderr": "/3g="}},
            "3a57590f560a5de29d491595bfb264ff072e06d4d0fcccc5ab2d4b3de410d37d",
        ),
        (
            {
                "project": {
                    "outcome": "PROJECT_OUTCOME_COMPLETED",
                    "steps": [
                        {"command": "node main.js > out.txt", "durationMs": "9"},
                        {"command": "cat out.txt", "stdout": "NDIK"},
                    ],
                    "artifacts": [{"path": "out.txt", "content": "NDIK"}],
                }
            },
            "bfb9756e0d38ac39c7ffd523278e5c32b63c5db76ec5162b7d1ffbe363d0ad6f",
        ),
        (
            {"project": {"outcome": 5, "outcomeDetail": "the runner stopped"}},
            "76f7b4ea07902fa191e242ca401fa8e869b5e9e771f98b58d80ba97fbc6d0ddf",
        ),
        (
            {
                "project": {
                    "outcome": "PROJECT_OUTCOME_COMPLETED",
                    "artifactsTruncated": True,
                    "steps": [{"command": "false", "exitCode": -1, "timedOut": True, "stderrTruncated": True}],
                }
            },
            "50dcb065521a756063c92a67dd148e45c888ffca03e85543f3d2c22cedb76565",
        ),
        (
            {"cell": {"stdout": "NDIK", "interpreterStarted": True}},
            "0ac5e3bdf4e3bc7f4bd2b5b11b44a57c2ac22bf5869825c6d8dc6f56909d1b61",
        ),
        ({"cell": {}}, "b02b3abc73971bc35acb539d9ccdb2bce3fe392e0d21c199d1bf88b3ef3e5136"),
    ],
)
def test_a_result_has_its_published_digest(answer: dict[str, Any], expected: str) -> None:
    assert result_digest(answer) == expected


def test_names_in_a_record_that_are_digests_have_their_published_values() -> None:
    session = "5947d7c33d783f94b3b4c1a96ebc8991ed28f1b069b71e03376cba8caa98a720"
    assert fingerprint("00112233445566778899aabbccddeeff") == session
    approved = "approved:sha256:def36ca56c26169c32c1690b9f8df85526c919015dc46db52662b58d98ad7a10"
    assert rule_id(RULE) == rule_id({**RULE, "identities": IDENTITIES[::-1]}) == approved
    assert rule_id({"mode": "approved", "identities": IDENTITIES[:1]}) == f"exact:{IDENTITIES[0]}"
    assert rule_id({}) == ""
