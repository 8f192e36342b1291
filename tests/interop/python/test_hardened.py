"""Hardened mode with real containers: served behind gVisor, refused behind the host's kernel."""

from __future__ import annotations

import hashlib
import json
import ssl
from pathlib import Path

import pytest
from plimsoll_client import Client

from harness import TOKEN, UNLIMITED, running


@pytest.fixture
def hardened(tmp_path: Path, certificates: Path) -> dict[str, str]:
    """Variables with which every rule holds that can be judged before the tier is proven."""
    with running({**UNLIMITED, "SANDBOX_PROVIDER": "docker"}) as plain:
        identity = Client(plain.base_url, TOKEN).describe().javascript_environment.identity
    caller = {"id": "ci", "token_sha256": hashlib.sha256(TOKEN.encode()).hexdigest(), "scopes": ["code:run"]}
    clients = tmp_path / "clients.json"
    clients.write_text(json.dumps({"clients": [caller]}))
    clients.chmod(0o600)
    image = identity.removeprefix("docker-image:")
    return {
        "PLIMSOLL_HARDENED": "true",
        "PLIMSOLL_CLIENTS_FILE": str(clients),
        "PLIMSOLL_TLS_CERT": str(certificates / "cert.pem"),
        "PLIMSOLL_TLS_KEY": str(certificates / "key.pem"),
        "SANDBOX_PROVIDER": "docker",
        "SANDBOX_DOCKER_IMAGE": image,
        "SANDBOX_DOCKER_PROJECT_IMAGE": image,
        "SANDBOX_REQUIRE_PINNED_IMAGES": "true",
        "SANDBOX_MEMORY_MB": "256",
        "SANDBOX_CPUS": "1",
        "SANDBOX_DISK_MB": "1024",
        "SANDBOX_PIDS": "128",
        "SANDBOX_TOTAL_MEMORY_MB": "4096",
    }


def test_behind_gvisor_every_rule_holds(hardened: dict[str, str], certificates: Path) -> None:
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    variables = {**hardened, "SANDBOX_DOCKER_RUNTIME": "runsc", "PLIMSOLL_CLIENTS_RELOAD": "true"}
    with running(variables) as daemon:
        assert daemon.log_line("hardened mode: every rule holds")["level"] == "INFO"
        client = Client(daemon.base_url, TOKEN, ssl_context=context)
        result = client.run_javascript("console.log(6*7)", minimum_isolation="kernel")
        assert (result.stdout, result.isolation) == (b"42\n", "kernel")
        # A registry that others can write is not taken when it is read again: nobody is revoked by it.
        clients = Path(hardened["PLIMSOLL_CLIENTS_FILE"])
        clients.write_text(json.dumps({"clients": [{"id": "other", "token_sha256": "0" * 64}]}))
        clients.chmod(0o620)
        daemon.hang_up()
        refused = daemon.wait_for_line("msg", "callers not reloaded; those of before stay")
        assert refused["level"] == "ERROR"
        assert "rule 20" in refused["error"]
        assert client.run_javascript("1").exit_code == 0


def test_behind_the_hosts_kernel_the_tier_is_refused(hardened: dict[str, str]) -> None:
    refused = "1 rule does not hold; rule 1: the tier proven is container"
    with pytest.raises(AssertionError, match=refused), running(hardened):
        pass
