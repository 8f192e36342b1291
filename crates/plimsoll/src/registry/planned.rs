//! Variables of providers that do not exist yet. Each moves to its provider's crate with the provider.

use plimsoll_core::vars::{Kind, Var};

const E2B: &str = "the e2b provider is";
const DOCKERCLOUD: &str = "the dockercloud provider is";
const OPENSHELL: &str = "the openshell provider is";

const fn e2b(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Var {
    Var::new(name, kind, default, help).read_by("e2b").not_built(E2B)
}

const fn dockercloud(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Var {
    Var::new(name, kind, default, help)
        .read_by("dockercloud")
        .not_built(DOCKERCLOUD)
}

const fn openshell(name: &'static str, kind: Kind, help: &'static str) -> Var {
    Var::new(name, kind, "", help).read_by("openshell").not_built(OPENSHELL)
}

pub(super) const VARS: &[Var] = &[
    e2b("E2B_API_KEY", Kind::Secret, "", "Key of the E2B account."),
    e2b("E2B_TEMPLATE", Kind::Text, "base", "Template of the sandboxes."),
    e2b(
        "E2B_GUARD_URL",
        Kind::Text,
        "",
        "Public https address of the egress guard.",
    ),
    e2b(
        "E2B_SESSION_GRANTS",
        Kind::OneOf(&["session", "call"]),
        "",
        "How long a grant in a session lasts.",
    ),
    dockercloud("DOCKER_SBX_TOKEN", Kind::Secret, "", "Token of the Docker account."),
    dockercloud("DOCKER_SBX_USERNAME", Kind::Text, "", "Name of the Docker account."),
    dockercloud(
        "SANDBOX_DOCKERCLOUD_API",
        Kind::OneOf(&["connect", "rest"]),
        "connect",
        "Which API is spoken.",
    ),
    dockercloud("SANDBOX_DOCKERCLOUD_API_URL", Kind::Text, "", "Address of the API."),
    dockercloud(
        "SANDBOX_DOCKERCLOUD_AUTH_URL",
        Kind::Text,
        "",
        "Address of the token service.",
    ),
    dockercloud(
        "SANDBOX_DOCKERCLOUD_POLICY_URL",
        Kind::Text,
        "",
        "Address of the policy service.",
    ),
    dockercloud("SANDBOX_DOCKERCLOUD_IMAGE", Kind::Text, "", "Image of the sandboxes."),
    dockercloud(
        "SANDBOX_DOCKERCLOUD_STORE_IMAGE",
        Kind::Text,
        "",
        "Stored image: its id, @ and its digest.",
    ),
    dockercloud(
        "SANDBOX_DOCKERCLOUD_GUARD_URL",
        Kind::Text,
        "",
        "Public https address of the egress guard.",
    ),
    openshell("SANDBOX_OPENSHELL_GATEWAY_URL", Kind::Text, "Address of the gateway."),
    openshell(
        "SANDBOX_OPENSHELL_CA_FILE",
        Kind::Path,
        "Certificate authority of the gateway.",
    ),
    openshell("SANDBOX_OPENSHELL_CERT_FILE", Kind::Path, "Certificate of the daemon."),
    openshell("SANDBOX_OPENSHELL_KEY_FILE", Kind::Path, "Key of the daemon."),
    openshell("SANDBOX_OPENSHELL_IMAGE", Kind::Text, "Image of the sandboxes."),
];
