"""The alert rules and the dashboard name only what a running daemon shows, and each alert fires on what it is about."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import ROOT, UNLIMITED, run_raw, running

RULES = ROOT / "deploy/prometheus/plimsoll.rules.yml"
DASHBOARD = ROOT / "deploy/grafana/plimsoll.json"

# What Prometheus adds to every series it scrapes.
SCRAPED = {"instance", "job"}

Families = dict[str, set[str]]


class Api(BaseHTTPRequestHandler):
    """Answers what is known and fails on the rest, so that calls, advice and an open breaker all happen."""

    def do_GET(self) -> None:
        """Answers one call."""
        content = b'{"ship": "Anna"}'
        self.send_response(503 if self.path.endswith("/broken") else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Says nothing: pytest shows what fails."""


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The metrics of a daemon that has seen every kind of thing that has a family."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    profile = {
        "base_url": f"http://127.0.0.1:{server.server_port}",
        "allow": ["GET /berths", "GET /berths/*"],
        "batch_of": {"GET /berths": ["GET /berths/*"]},
        "allowed_callers": ["static"],
        "advice": "caller",
        "token": {"env": "BERTHS_TOKEN"},
    }
    grants = tmp_path_factory.mktemp("grants") / "grants.json"
    grants.write_text(json.dumps({"profiles": {"berths": profile}}))
    grants.chmod(0o600)
    variables = {
        **UNLIMITED,
        "PLIMSOLL_GRANTS_FILE": str(grants),
        "BERTHS_TOKEN": "a-token-for-the-api",
        "SANDBOX_MAX_SESSIONS": "2",
    }
    with running(variables) as daemon:

        def run(code: str, **more: object) -> None:
            run_raw(daemon, {"protocol": 4, "javascript": {"code": code, **more}})

        run("for (let i = 0; i < 8; i++) await host.get('/berths/' + i)", grantProfile="berths")
        failing = "for (let i = 0; i < 4; i++) try { await host.get('/berths/broken') } catch {}"
        run(failing, grantProfile="berths")
        with pytest.raises(urllib.error.HTTPError):
            run_raw(daemon, {"protocol": 4, "minimumIsolation": "vm", "javascript": {"code": "1"}})
        with urllib.request.urlopen(daemon.metrics_url, timeout=10) as answer:
            yield answer.read().decode()
    server.shutdown()
    server.server_close()


def families(page: str) -> Families:
    """The families of a page and the labels of each; a histogram under the names of its series."""
    found: Families = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", page, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def unknown_names(expression: str, known: Families) -> set[str]:
    """What a PromQL expression names and no daemon shows: families, and labels that their family lacks."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    unknown = {name for name in re.findall(r"\bplimsoll_\w+", bare) if name not in known}
    for name, matchers in re.findall(r"\b(plimsoll_\w+)\{([^}]*)\}", bare):
        labels = set(re.findall(r"(\w+)\s*[=!]", matchers))
        unknown |= {f"{name}{{{label}}}" for label in labels - known.get(name, set()) - SCRAPED}
    named = set(re.findall(r"\bplimsoll_\w+", bare))
    of_any = SCRAPED.union(*(known.get(name, set()) for name in named))
    for grouping in re.findall(r"\b(?:by|on|group_left|ignoring|without) \(([^)]*)\)", bare):
        unknown |= {f"({label})" for label in re.findall(r"\w+", grouping) if label not in of_any}
    return unknown


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def with_records(known: Families) -> Families:
    """The families, and what the recording rules make of them: those keep the labels of scraping."""
    return {**known, **{rule["record"]: set() for rule in rules() if "record" in rule}}


def targets() -> list[str]:
    """Every expression of the dashboard, with its variables filled in as Grafana does."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return [text.replace("$__rate_interval", "5m").replace("$instance", ".*") for text in expressions]


def promtool(*arguments: str, text: str = "") -> str:
    """What promtool says; whatever it objects to is a failure."""
    done = subprocess.run(
        [os.environ["PROMTOOL"], *arguments], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_of_a_running_daemon_is_what_prometheus_wants(page: str) -> None:
    promtool("check", "metrics", text=page)


def test_the_rules_are_valid() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(RULES))


def test_every_rule_fires_on_what_it_is_about_and_is_silent_otherwise() -> None:
    tests = RULES.with_name("plimsoll.rules.test.yml")
    promtool("test", "rules", str(tests))
    fired: set[str] = set()
    silent: set[str] = set()
    for case in yaml.safe_load(tests.read_text())["tests"]:
        for one in case.get("alert_rule_test", []):
            (fired if one["exp_alerts"] else silent).add(one["alertname"])
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    assert fired == alerts
    assert silent == alerts


def test_a_wrong_expectation_of_a_rule_is_noticed(tmp_path: Path) -> None:
    text = (
        RULES.with_name("plimsoll.rules.test.yml").read_text().replace("rule_files: [", f"rule_files: [{RULES.parent}/")
    )
    broken = tmp_path / "broken.yml"
    broken.write_text(text.replace("10% of the runs of b", "11% of the runs of b"))
    done = subprocess.run(
        [os.environ["PROMTOOL"], "test", "rules", str(broken)], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 1


def test_every_family_and_label_of_the_rules_is_on_the_page(page: str) -> None:
    known = with_records(families(page))
    for rule in rules():
        assert not unknown_names(rule["expr"], known), rule


def test_every_rule_says_how_bad_it_is_and_what_to_do() -> None:
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in {"page", "ticket"}, rule
            assert set(rule["annotations"]) == {"summary", "description"}, rule
    variables = set(re.findall(r"\b(?:PLIMSOLL|SANDBOX)_[A-Z_]+", RULES.read_text()))
    known = set(re.findall(r"\b(?:PLIMSOLL|SANDBOX)_[A-Z_]+", (ROOT / "docs/variables.md").read_text()))
    assert variables <= known


def test_every_family_and_label_of_the_dashboard_is_on_the_page(page: str) -> None:
    known = families(page)
    assert len(targets()) > 10
    for expression in targets():
        assert not unknown_names(expression, known), expression


def test_what_no_daemon_shows_is_found(page: str) -> None:
    known = families(page)
    for wrong in (
        "plimsoll_run_total",
        'plimsoll_shed_total{cause="rate"}',
        "sum by (caller) (plimsoll_inflight)",
        "plimsoll_run_duration_seconds",
    ):
        assert unknown_names(wrong, known), wrong


def test_every_expression_of_the_dashboard_is_valid(tmp_path: Path) -> None:
    recorded = [{"record": f"dashboard:{number}", "expr": text} for number, text in enumerate(targets())]
    file = tmp_path / "dashboard.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    promtool("check", "rules", str(file))


def test_the_dashboard_has_the_form_that_grafana_imports() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert board["schemaVersion"] >= 36
    assert (board["uid"], board["title"]) == ("plimsoll", "plimsoll")
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert variables == {"datasource", "instance"}
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["type"] in {"row", "stat", "table", "timeseries"}, panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert taken.isdisjoint(cells), f"{panel['title']} lies on another panel"
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(set(references)) == len(references)
    used = set(re.findall(r"\$\{?(\w+)", DASHBOARD.read_text()))
    assert used <= variables | {"__rate_interval"}
