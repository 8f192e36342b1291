//! Objects of Kubernetes as its own types read them, with nothing left over.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, SecretKeySelector, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the Prometheus operator takes, as far as we use it: its types are no part of Kubernetes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceMonitor {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "metadata")]
    _metadata: ObjectMeta,
    #[serde(rename = "spec")]
    _spec: ServiceMonitorSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceMonitorSpec {
    #[serde(rename = "selector")]
    _selector: LabelSelector,
    #[serde(rename = "endpoints")]
    _endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Endpoint {
    #[serde(rename = "port")]
    _port: String,
    #[serde(rename = "interval")]
    _interval: String,
    #[serde(rename = "scheme")]
    _scheme: Option<String>,
    #[serde(rename = "tlsConfig")]
    _tls_config: Option<TlsConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsConfig {
    #[serde(rename = "ca")]
    _ca: Authority,
    #[serde(rename = "serverName")]
    _server_name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Authority {
    #[serde(rename = "secret")]
    _secret: SecretKeySelector,
}

/// Reads an object as the type it says it is.
///
/// # Errors
/// It is of a kind nobody expects here, a field is missing or of the wrong type, or there are fields that the type lacks.
pub(crate) fn read(object: &Value) -> Result<(), String> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        ("v1", "Namespace") => whole::<Namespace>(object),
        ("v1", "ServiceAccount") => whole::<ServiceAccount>(object),
        ("v1", "ConfigMap") => whole::<ConfigMap>(object),
        ("v1", "Service") => whole::<Service>(object),
        ("apps/v1", "Deployment") => whole::<Deployment>(object),
        ("networking.k8s.io/v1", "NetworkPolicy") => whole::<NetworkPolicy>(object),
        ("policy/v1", "PodDisruptionBudget") => whole::<PodDisruptionBudget>(object),
        ("node.k8s.io/v1", "RuntimeClass") => whole::<RuntimeClass>(object),
        ("monitoring.coreos.com/v1", "ServiceMonitor") => whole::<ServiceMonitor>(object),
        (version, kind) => Err(format!("no type is known for {version} {kind}")),
    }
}

fn whole<T: DeserializeOwned>(object: &Value) -> Result<(), String> {
    let mut unknown = Vec::new();
    let read: Result<T, _> = serde_ignored::deserialize(object.clone(), |path| unknown.push(path.to_string()));
    read.map_err(|error| error.to_string())?;
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(format!("fields that the type lacks: {}", unknown.join(", ")))
    }
}
