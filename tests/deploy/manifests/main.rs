//! The manifests and the chart of `deploy`: every object is one that Kubernetes reads whole, they fit each other, and the
//! daemon takes the settings they give it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chart;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::chart::{file, objects, program, rendered, templates, text, tool, values};

const MANIFESTS: [&str; 3] = [
    "deploy/kubernetes/plimsolld.yaml",
    "deploy/kubernetes/runtimeclasses.yaml",
    "deploy/kubernetes/servicemonitor.yaml",
];

/// Values that take every branch of every template.
fn variants() -> Vec<(&'static str, Value)> {
    let private = json!([{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"protocol": "TCP", "port": 443}]}]);
    vec![
        ("plimsolld", json!({})),
        ("other", json!({})),
        (
            "kata",
            json!({"runtimeClassName": "kata", "createRuntimeClasses": true}),
        ),
        (
            "bare",
            json!({
                "runtimeClassName": "",
                "networkPolicy": {"enabled": false},
                "podDisruptionBudget": {"enabled": false},
                "image": {"digest": format!("sha256:{}", "0".repeat(64))},
            }),
        ),
        ("closed", json!({"networkPolicy": {"callers": [], "scrapers": []}})),
        (
            "full",
            json!({
                "grantsSecret": "plimsolld-grants",
                "tlsSecret": "plimsolld-tls",
                "extraEnvFrom": [{"secretRef": {"name": "port-api"}}],
                "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
                "networkPolicy": {"egress": private, "scrapers": []},
                "nodeSelector": {"sandbox": "true"},
                "tolerations": [{"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}],
                "podAnnotations": {"example.com/note": "yes"},
                "podDisruptionBudget": {"minAvailable": "50%"},
                "settings": {"SANDBOX_MAX_SESSIONS": "16", "SANDBOX_RATE_PER_MIN": "0"},
                "replicas": 20,
            }),
        ),
    ]
}

fn name(object: &Value) -> String {
    format!(
        "{} {}",
        object["kind"].as_str().unwrap(),
        object["metadata"]["name"].as_str().unwrap()
    )
}

fn find<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap()
}

#[test]
fn every_manifest_is_read_whole_by_the_types_of_kubernetes() {
    for path in MANIFESTS {
        for object in file(path) {
            types::read(&object).unwrap_or_else(|error| panic!("{path}: {}: {error}", name(&object)));
        }
    }
}

#[test]
fn every_object_of_the_chart_is_read_whole_whatever_the_values() {
    for (release, replaced) in variants() {
        for object in objects(release, &replaced) {
            types::read(&object).unwrap_or_else(|error| panic!("{release}: {}: {error}", name(&object)));
        }
    }
}

#[test]
fn a_field_that_kubernetes_does_not_have_is_refused_at_any_depth() {
    let objects = file(MANIFESTS[0]);
    let deployment = find(&objects, "Deployment");
    let wrong: [(&str, Value); 5] = [
        ("/spec", json!({"replica": 2})),
        ("/spec/template/spec", json!({"runtimeClass": "gvisor"})),
        (
            "/spec/template/spec/containers/0",
            json!({"readOnlyRootFilesystem": true}),
        ),
        (
            "/spec/template/spec/containers/0/securityContext",
            json!({"privilegeEscalation": false}),
        ),
        (
            "/spec/template/spec/containers/0/readinessProbe/httpGet",
            json!({"url": "/readyz"}),
        ),
    ];
    for (place, more) in wrong {
        let mut object = deployment.clone();
        let Some(Value::Object(fields)) = object.pointer_mut(place) else {
            panic!("{place} is no object");
        };
        fields.extend(more.as_object().unwrap().clone());
        let error = types::read(&object).unwrap_err();
        assert!(error.contains("fields that the type lacks"), "{place}: {error}");
    }
    let mut object = deployment.clone();
    object["spec"]["replicas"] = json!("two");
    types::read(&object).unwrap_err();
    object = deployment.clone();
    object["kind"] = json!("StatefulSet");
    types::read(&object).unwrap_err();
}

/// An object without what only one of the two ways to make it can have.
fn plain(mut object: Value) -> Value {
    if let Some(Value::Object(labels)) = object.pointer_mut("/metadata/labels") {
        for label in [
            "app.kubernetes.io/version",
            "app.kubernetes.io/managed-by",
            "helm.sh/chart",
        ] {
            labels.remove(label);
        }
    }
    object
}

#[test]
fn the_chart_makes_the_manifests() {
    let replaced = json!({"createRuntimeClasses": true, "serviceMonitor": {"enabled": true}});
    let by_name = |objects: Vec<Value>| -> BTreeMap<String, Value> {
        objects
            .into_iter()
            .map(|object| (name(&object), plain(object)))
            .collect()
    };
    let made = by_name(objects("plimsolld", &replaced));
    let mut written = by_name(MANIFESTS.iter().flat_map(|path| file(path)).collect());
    // Helm makes no namespace that it is installed into.
    written.remove("Namespace plimsoll").unwrap();
    assert_eq!(made.keys().collect::<Vec<_>>(), written.keys().collect::<Vec<_>>());
    for (name, object) in written {
        assert_eq!(made[&name], object, "{name}");
    }
}

#[test]
fn what_names_each_other_is_there() {
    for (release, replaced) in variants() {
        let objects = objects(release, &replaced);
        let pod = &find(&objects, "Deployment")["spec"]["template"];
        let labels = pod["metadata"]["labels"].as_object().unwrap();
        let container = &pod["spec"]["containers"][0];
        let ports: BTreeSet<&str> = container["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|port| port["name"].as_str().unwrap())
            .collect();
        let covers = |selector: &Value| {
            let selector = selector.as_object().unwrap();
            !selector.is_empty() && selector.iter().all(|(name, value)| labels.get(name) == Some(value))
        };
        assert!(covers(&find(&objects, "Deployment")["spec"]["selector"]["matchLabels"]));
        let mut served = BTreeSet::new();
        for object in &objects {
            let spec = &object["spec"];
            match object["kind"].as_str().unwrap() {
                "Service" => {
                    assert!(covers(&spec["selector"]), "{}", name(object));
                    for port in spec["ports"].as_array().unwrap() {
                        assert!(ports.contains(port["targetPort"].as_str().unwrap()), "{}", name(object));
                        served.insert(port["name"].as_str().unwrap());
                    }
                }
                "NetworkPolicy" => {
                    assert!(covers(&spec["podSelector"]["matchLabels"]), "{}", name(object));
                    for rule in spec["ingress"].as_array().unwrap() {
                        assert!(!rule["from"].as_array().unwrap().is_empty(), "everybody may call");
                        assert!(ports.contains(rule["ports"][0]["port"].as_str().unwrap()));
                    }
                    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
                }
                "PodDisruptionBudget" => assert!(covers(&spec["selector"]["matchLabels"]), "{}", name(object)),
                _ => {}
            }
        }
        for monitor in objects.iter().filter(|object| object["kind"] == "ServiceMonitor") {
            assert!(covers(&monitor["spec"]["selector"]["matchLabels"]));
            assert!(served.contains(monitor["spec"]["endpoints"][0]["port"].as_str().unwrap()));
        }
        let accounts = find(&objects, "ServiceAccount");
        assert_eq!(pod["spec"]["serviceAccountName"], accounts["metadata"]["name"]);
        let settings = find(&objects, "ConfigMap");
        assert_eq!(
            container["envFrom"][0]["configMapRef"]["name"],
            settings["metadata"]["name"]
        );
        let mounted: BTreeSet<&str> = container["volumeMounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mount| mount["name"].as_str().unwrap())
            .collect();
        let volumes: BTreeSet<&str> = pod["spec"]["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|volume| volume["name"].as_str().unwrap())
            .collect();
        assert_eq!(mounted, volumes);
    }
}

#[test]
fn pods_are_what_a_restricted_namespace_admits() {
    let user = text("deploy/image/build");
    let user = user.lines().find_map(|line| line.strip_prefix("USER = ")).unwrap();
    for (release, replaced) in variants() {
        let objects = objects(release, &replaced);
        let pod = &find(&objects, "Deployment")["spec"]["template"]["spec"];
        let of_pod = &pod["securityContext"];
        assert_eq!(of_pod["runAsNonRoot"], true);
        assert_eq!(of_pod["runAsUser"].to_string(), user);
        assert_eq!(of_pod["seccompProfile"], json!({"type": "RuntimeDefault"}));
        for host in ["hostNetwork", "hostPID", "hostIPC"] {
            assert_eq!(pod[host], Value::Null);
        }
        let container = &pod["containers"][0];
        assert_eq!(
            container["securityContext"],
            json!({
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            })
        );
        for volume in pod["volumes"].as_array().unwrap() {
            let kinds: Vec<&String> = volume
                .as_object()
                .unwrap()
                .keys()
                .filter(|key| *key != "name")
                .collect();
            assert_eq!(kinds, ["secret"]);
        }
        assert_eq!(pod["automountServiceAccountToken"], false);
        // The pause of preStop and the longest drain.
        let pause = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap();
        assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() >= pause + 6 * 60);
        for (probe, path) in [
            ("startupProbe", "/readyz"),
            ("readinessProbe", "/readyz"),
            ("livenessProbe", "/healthz"),
        ] {
            let mut expected = json!({"path": path, "port": "rpc"});
            if replaced["tlsSecret"].is_string() {
                expected["scheme"] = json!("HTTPS");
            }
            assert_eq!(container[probe]["httpGet"], expected);
        }
    }
}

#[test]
fn the_daemon_takes_the_settings_it_is_given() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let clients = folder.join("clients.json");
    let caller = json!({"clients": [{"id": "ci", "token_sha256": "0".repeat(64), "scopes": ["code:run"]}]});
    fs_err::write(&clients, caller.to_string()).unwrap();
    let grants = folder.join("grants.json");
    let profile = json!({
        "base_url": "https://port.example.com",
        "allow": ["GET /berths"],
        "allowed_callers": ["ci"],
        "token": {"env": "PORT_TOKEN"},
    });
    fs_err::write(&grants, json!({"profiles": {"port": profile}}).to_string()).unwrap();
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    let made = program("/usr/bin/openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=plimsolld",
            "-addext",
            "subjectAltName=DNS:plimsolld",
            "-keyout",
        ])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut given = BTreeSet::new();
    for (release, replaced) in variants() {
        let objects = objects(release, &replaced);
        let mut settings: Map<String, Value> = find(&objects, "ConfigMap")["data"].as_object().unwrap().clone();
        for (variable, path) in [
            ("PLIMSOLL_CLIENTS_FILE", &clients),
            ("PLIMSOLL_GRANTS_FILE", &grants),
            ("PLIMSOLL_TLS_CERT", &certificate),
            ("PLIMSOLL_TLS_KEY", &key),
        ] {
            if let Some(value) = settings.get_mut(variable) {
                *value = json!(path);
                given.insert(variable);
            }
        }
        let checked = program(&tool("PLIMSOLLD"))
            .arg("check")
            .envs(settings.iter().map(|(name, value)| (name, value.as_str().unwrap())))
            .env("PORT_TOKEN", "a-token-for-the-api")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{release}: {said}");
        assert!(!said.contains("nothing reads a variable"), "{release}: {said}");
    }
    assert_eq!(given.len(), 4, "{given:?}");
}

/// Compares what the values have with what their schema has, down to where either is open.
fn same_members(values: &Value, schema: &Value, place: &str) {
    if schema["additionalProperties"] != json!(false) {
        return;
    }
    let members: BTreeSet<&String> = values.as_object().unwrap().keys().collect();
    let known = schema["properties"].as_object().unwrap();
    // What Helm itself hands to every chart.
    let listed: BTreeSet<&String> = known.keys().filter(|key| *key != "global").collect();
    assert_eq!(members, listed, "{place}");
    for (name, value) in values.as_object().unwrap() {
        same_members(value, &known[name], &format!("{place}/{name}"));
    }
}

#[test]
fn the_schema_of_the_values_has_their_members_and_no_others() {
    let schema: Value = serde_json::from_str(&text("deploy/helm/plimsoll/values.schema.json")).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    same_members(&values(&json!({})), &schema, "");
}

#[test]
fn every_value_changes_something_and_every_template_uses_values_that_are_there() {
    let text: String = templates().into_values().collect();
    fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
        match value.as_object() {
            Some(members) if !members.is_empty() && path != ".Values.settings" && path != ".Values.resources" => {
                for (name, value) in members {
                    leaves(value, &format!("{path}.{name}"), found);
                }
            }
            _ => found.push(path.to_owned()),
        }
    }
    let mut paths = Vec::new();
    leaves(&values(&json!({})), ".Values", &mut paths);
    assert!(paths.len() > 20);
    for path in paths {
        assert!(text.contains(&path), "no template uses {path}");
    }
}

#[test]
fn a_template_that_calls_or_reads_what_is_not_there_is_refused() {
    for (wrong, reason) in [
        (
            "{{ lookup \"v1\" \"Secret\" \"a\" \"b\" }}",
            "function \"lookup\" not defined",
        ),
        ("{{ .Values.replica }}", "replica"),
        ("{{ include \"nosuch\" . }}", "nosuch"),
        ("{{ if }}", "missing value for if"),
    ] {
        let templates = BTreeMap::from([("wrong.yaml".to_owned(), wrong.to_owned())]);
        let error = rendered("plimsolld", &templates, &json!({})).unwrap_err();
        assert!(error.contains(reason), "{wrong}: {error}");
    }
}

#[test]
fn the_notes_name_the_service_and_the_secret() {
    let notes = BTreeMap::from([
        ("NOTES.txt".to_owned(), templates().remove("NOTES.txt").unwrap()),
        ("_helpers.tpl".to_owned(), templates().remove("_helpers.tpl").unwrap()),
    ]);
    let said = rendered("other", &notes, &json!({})).unwrap();
    assert!(
        said.contains("other-plimsolld.plimsoll:8746") && said.contains("plimsolld-clients"),
        "{said}"
    );
}

#[test]
fn the_versions_are_those_of_the_workspace() {
    let chart = file("deploy/helm/plimsoll/Chart.yaml").remove(0);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        (chart["version"].as_str(), chart["appVersion"].as_str()),
        (Some(version), Some(version))
    );
    let objects = file(MANIFESTS[0]);
    let image = &find(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image.as_str().unwrap(), format!("localhost/plimsolld:{version}"));
    assert!(text("deploy/compose.yaml").contains(&format!("localhost/plimsolld:{version}")));
}
