"""Every refusal the published client can tell apart: its class, its mark, and that nothing ran."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest
from plimsoll_client import (
    AtCapacityError,
    Client,
    DisabledError,
    InsufficientIsolationError,
    InvalidRequestError,
    PlimsollError,
    ProtocolMismatchError,
    SoftwareMismatchError,
    SoftwareRule,
    UnsupportedError,
)

from harness import TOKEN, UNLIMITED, Daemon, running
from proxy import Exchange, Proxy


def refusal(error: pytest.ExceptionInfo[PlimsollError]) -> tuple[str, str | None, int | None, bool]:
    """What a caller decides by: code, mark, HTTP status, and whether the answer was bound to the request."""
    value = error.value
    return (value.code, value.not_dispatched, value.http_status, value.answer_not_bound)


@pytest.mark.parametrize("floor", ["container", "kernel", "vm"])
def test_a_floor_above_the_tier_is_refused_before_dispatch(client: Client, daemon: Daemon, floor: str) -> None:
    before = daemon.metric("plimsoll_runs_total")
    with pytest.raises(InsufficientIsolationError) as error:
        client.run_javascript("console.log('must not run')", minimum_isolation=floor)
    assert refusal(error) == ("failed_precondition", "isolation", 400, False)
    assert daemon.metric("plimsoll_runs_total") == before


def test_a_software_rule_is_refused_because_wasm_states_no_software(client: Client) -> None:
    rule = SoftwareRule.exact("oci-manifest:linux/amd64@sha256:" + "a" * 64)
    with pytest.raises(SoftwareMismatchError) as error:
        client.run_javascript("1", software=rule)
    assert refusal(error) == ("failed_precondition", "environment", 400, False)


def test_kinds_and_sessions_that_wasm_does_not_have_are_unsupported(client: Client) -> None:
    with pytest.raises(UnsupportedError) as error:
        client.run_project({"main.js": "1"}, ["ls", "node main.js"])
    assert refusal(error) == ("unimplemented", "unsupported", 501, False)
    with pytest.raises(UnsupportedError) as error:
        client.run_module("VanDerPol", [[1.0, 2.0]], end_time=1.0, step=0.1)
    assert refusal(error) == ("unimplemented", "unsupported", 501, False)
    with pytest.raises(UnsupportedError) as error:
        client.open_session()
    assert refusal(error) == ("unimplemented", "unsupported", 501, False)


def test_floor_and_rule_outrank_unsupported(client: Client) -> None:
    files, steps = {"main.js": "1"}, ["node main.js"]
    rule = SoftwareRule.exact("oci-manifest:linux/amd64@sha256:" + "a" * 64)
    with pytest.raises(InsufficientIsolationError):
        client.run_project(files, steps, minimum_isolation="vm", software=rule)
    with pytest.raises(SoftwareMismatchError):
        client.run_project(files, steps, software=rule)


def test_a_wrong_token_is_unauthenticated(daemon: Daemon) -> None:
    for token in ("wrong" * 8, TOKEN[:-1] + "0", None):
        with pytest.raises(PlimsollError) as error:
            Client(daemon.base_url, token).run_javascript("1")
        assert refusal(error) == ("unauthenticated", "permission", 401, False)


def test_a_caller_without_the_scope_is_denied_everything(tmp_path: Path) -> None:
    registry = tmp_path / "clients.json"
    registry.write_text(
        json.dumps(
            {
                "clients": [
                    {"id": "runner", "token_sha256": fingerprint("runner"), "scopes": ["code:run"]},
                    {"id": "watcher", "token_sha256": fingerprint("watcher"), "scopes": []},
                ]
            }
        )
    )
    registry.chmod(0o600)
    variables = {name: value for name, value in UNLIMITED.items() if name != "PLIMSOLL_TOKEN"}
    with running({**variables, "PLIMSOLL_CLIENTS_FILE": str(registry)}) as daemon:
        assert Client(daemon.base_url, token_of("runner")).run_javascript("console.log(1)").stdout == b"1\n"
        watcher = Client(daemon.base_url, token_of("watcher"))
        with pytest.raises(PlimsollError) as error:
            watcher.describe()
        assert refusal(error) == ("permission_denied", "permission", 403, False)
        with pytest.raises(PlimsollError) as error:
            watcher.run_javascript("1")
        assert refusal(error) == ("permission_denied", "permission", 403, False)


def test_an_unknown_grant_profile_is_denied_and_a_long_name_is_invalid(client: Client) -> None:
    with pytest.raises(PlimsollError) as error:
        client.run_javascript("1", grant_profile="payroll-api")
    assert refusal(error) == ("permission_denied", "permission", 403, False)
    with pytest.raises(InvalidRequestError) as error:
        client.run_javascript("1", grant_profile="p" * 129)
    assert refusal(error) == ("invalid_argument", "request", 400, False)


def test_a_body_over_8_mib_is_refused_from_its_header_alone(client: Client) -> None:
    # Under the 4 MiB that files may hold, but each of these characters takes six bytes in JSON.
    with pytest.raises(InvalidRequestError) as error:
        client.run_project({"f": "\x01" * 3_000_000}, ["node f"])
    assert refusal(error) == ("resource_exhausted", "request", 429, False)


@pytest.mark.parametrize(
    ("protocol", "code", "status"),
    [
        (None, "invalid_argument", 400),
        (3, "unimplemented", 501),
        (5, "unimplemented", 501),
        (999, "unimplemented", 501),
    ],
)
def test_another_protocol_number_is_refused(daemon: Daemon, protocol: int | None, code: str, status: int) -> None:
    def restate(exchange: Exchange) -> None:
        if protocol is None:
            del exchange.request["protocol"]
        else:
            exchange.request["protocol"] = protocol

    before = daemon.metric("plimsoll_runs_total")
    with Proxy(daemon.address, on_request=restate) as proxy:
        expected = ProtocolMismatchError if code == "unimplemented" else InvalidRequestError
        with pytest.raises(expected) as error:
            Client(proxy.base_url, TOKEN).run_javascript("1")
    assert refusal(error) == (code, "protocol", status, False)
    assert daemon.metric("plimsoll_runs_total") == before


def test_the_second_run_of_a_minute_is_at_capacity_when_the_rate_is_one() -> None:
    with running({**UNLIMITED, "SANDBOX_RATE_PER_MIN": "1"}) as daemon:
        client = Client(daemon.base_url, TOKEN)
        # Refusals that come before admission spend nothing.
        with pytest.raises(InsufficientIsolationError):
            client.run_javascript("1", minimum_isolation="vm")
        assert client.run_javascript("console.log(1)").exit_code == 0
        with pytest.raises(AtCapacityError) as error:
            client.run_javascript("console.log(2)")
        assert refusal(error) == ("resource_exhausted", "capacity", 429, False)
        assert daemon.metric('plimsoll_shed_total{reason="rate"}') == 1


def test_a_run_over_the_callers_own_cap_is_at_capacity() -> None:
    limits = {"SANDBOX_MAX_CONCURRENT": "4", "SANDBOX_PER_KEY_CONCURRENT": "1"}
    with running({**UNLIMITED, **limits}) as daemon:
        client = Client(daemon.base_url, TOKEN)
        long_run = threading.Thread(target=client.run_javascript, args=("while(true){}",), kwargs={"timeout": 3.0})
        long_run.start()
        daemon.wait_for_metric("plimsoll_inflight", 1)
        with pytest.raises(AtCapacityError) as error:
            client.run_javascript("1")
        assert refusal(error) == ("resource_exhausted", "capacity", 429, False)
        long_run.join()
        assert daemon.metric('plimsoll_shed_total{reason="per_key"}') == 1
        daemon.wait_for_metric("plimsoll_inflight", 0)


def test_a_daemon_without_a_provider_refuses_every_run_as_disabled() -> None:
    with running({}) as daemon:
        client = Client(daemon.base_url)
        info = client.describe()
        assert (info.provider, info.isolation) == ("disabled", "none")
        with pytest.raises(DisabledError) as error:
            client.run_javascript("1")
        assert refusal(error) == ("failed_precondition", "unsupported", 400, False)
        with pytest.raises(InsufficientIsolationError):
            client.run_javascript("1", minimum_isolation="process")
        with pytest.raises(UnsupportedError):
            client.open_session()


def token_of(name: str) -> str:
    """A token for a caller of the registry above."""
    return f"{name}-token-0123456789abcdef0123456789abcdef"


def fingerprint(name: str) -> str:
    """What the registry holds of that token."""
    return hashlib.sha256(token_of(name).encode()).hexdigest()
