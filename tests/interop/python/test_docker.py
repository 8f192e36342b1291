"""The published client against the docker provider, under runc and under gVisor."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from plimsoll_client import (
    PROTOCOL,
    RECORD_VERSION,
    Client,
    InsufficientIsolationError,
    SoftwareMismatchError,
    SoftwareRule,
    UnsupportedError,
)

from harness import TOKEN, UNLIMITED, Daemon, run_raw, running
from recompute import record_digest, request_digest, result_digest

IMAGE = re.compile(r"docker-image:sha256:[0-9a-f]{64}")
# Writes three bytes that are not text.
SUM = "import { writeFileSync } from 'node:fs';\nwriteFileSync('out.bin', Buffer.from([0, 255, 10]));\n"
TIERS = {"runc": "container", "runsc": "kernel"}


@pytest.fixture(scope="module", params=["runc", "runsc"])
def runtime(request: pytest.FixtureRequest) -> str:
    """The OCI runtime of a daemon."""
    return str(request.param)


@pytest.fixture(scope="module")
def docker(runtime: str) -> Iterator[Daemon]:
    """A daemon whose runs are containers, two of which wait ready for each kind of run."""
    variables = {**UNLIMITED, "SANDBOX_PROVIDER": "docker", "SANDBOX_READY_POOL": "2"}
    if runtime != "runc":
        variables["SANDBOX_DOCKER_RUNTIME"] = runtime
    with running(variables) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def boxed(docker: Daemon) -> Client:
    """The client of that daemon."""
    return Client(docker.base_url, TOKEN)


def test_describe_states_the_tier_the_images_and_what_they_run(boxed: Client, runtime: str) -> None:
    info = boxed.describe()
    assert (info.provider, info.isolation, info.protocol) == ("docker", TIERS[runtime], PROTOCOL)
    for environment in (info.javascript_environment, info.project_environment):
        assert IMAGE.fullmatch(environment.identity)
        assert "javascript" in environment.languages
    assert (info.javascript_environment.max_timeout_ms, info.project_environment.max_timeout_ms) == (30_000, 120_000)
    assert info.supports_project
    assert info.supports_javascript_grants
    assert info.supports_project_grants
    assert (info.supports_module, info.supports_sessions) == (False, False)


def test_a_snippet_carries_its_tier_and_a_record_that_stands(boxed: Client, runtime: str) -> None:
    for _ in range(4):
        result = boxed.run_javascript("console.log(6*7)", minimum_isolation=TIERS[runtime])
        assert (result.stdout, result.stderr, result.exit_code, result.timed_out) == (b"42\n", b"", 0, False)
        assert (result.provider, result.isolation) == ("docker", TIERS[runtime])
        assert IMAGE.fullmatch(result.environment)
        assert result.record is not None
        assert result.record.version == RECORD_VERSION


def test_a_project_brings_its_steps_and_artifacts_back(boxed: Client, runtime: str) -> None:
    result = boxed.run_project(
        {"src/sum.mjs": SUM},
        ["node src/sum.mjs", "ls", "exit 3", "echo never"],
        ["out.bin", "missing"],
        minimum_isolation=TIERS[runtime],
    )
    assert (result.outcome, result.detail) == ("completed", "")
    assert [step.exit_code for step in result.steps] == [0, 0, 3]
    assert result.steps[1].stdout == b"out.bin\nsrc\n"
    assert [(artifact.path, artifact.content) for artifact in result.artifacts] == [("out.bin", b"\x00\xff\n")]
    assert result.isolation == TIERS[runtime]


def test_anyone_can_recompute_a_projects_record_by_hand(docker: Daemon, runtime: str) -> None:
    request = {
        "protocol": 4,
        "minimumIsolation": TIERS[runtime],
        "project": {
            "files": [{"path": "src/sum.mjs", "content": SUM}],
            "steps": ["node src/sum.mjs", "echo é >&2; exit 3", "echo never"],
            "artifacts": ["out.bin", "missing"],
        },
    }
    answer = run_raw(docker, request)
    record = answer["record"]
    assert [step.get("exitCode", 0) for step in answer["project"]["steps"]] == [0, 3]
    assert record["requestSha256"] == request_digest(request)
    assert record["resultSha256"] == result_digest(answer)
    assert record["recordSha256"] == record_digest(record)


def test_a_step_that_outlives_its_time_is_told_as_such(boxed: Client) -> None:
    result = boxed.run_project({}, ["echo before", "sleep 60"], timeout=2.0, minimum_isolation="container")
    assert result.outcome == "timed_out"
    assert [(step.stdout, step.exit_code, step.timed_out) for step in result.steps] == [
        (b"before\n", 0, False),
        (b"", 124, True),
    ]


def test_what_the_wall_or_the_provider_cannot_give_is_refused(boxed: Client) -> None:
    with pytest.raises(InsufficientIsolationError):
        boxed.run_javascript("1", minimum_isolation="vm")
    rule = SoftwareRule.exact("oci-manifest:linux/amd64@sha256:" + "a" * 64)
    with pytest.raises(SoftwareMismatchError):
        boxed.run_javascript("1", minimum_isolation="container", software=rule)
    with pytest.raises(UnsupportedError):
        boxed.open_session(minimum_isolation="container")
