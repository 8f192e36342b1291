use serde_json::{Value, json};

use super::*;
use crate::fake::{FakeEngine, IMAGE_ID, Reply, image, info, settings, version};

/// The outcome against a healthy engine after these changes, with these settings.
async fn outcome(change: impl FnOnce(&FakeEngine), values: &[(&str, &str)]) -> Result<Snapshot, PreflightError> {
    let fake = FakeEngine::healthy();
    change(&fake);
    let socket = fake.socket().to_str().unwrap().to_owned();
    let mut all = vec![("DOCKER_HOST", socket.as_str())];
    all.extend_from_slice(values);
    preflight(&settings(&all), None).await
}

fn info_with(name: &str, value: Value) -> Reply {
    let mut info = info();
    info[name] = value;
    Reply::Json(200, info)
}

fn image_with(config: Value) -> Reply {
    let mut image = image(IMAGE_ID);
    image["Config"] = config;
    Reply::Json(200, image)
}

#[tokio::test]
async fn a_healthy_engine_gives_a_state_of_content_ids() {
    let snapshot = outcome(|_| (), &[]).await.unwrap();
    assert_eq!(snapshot.javascript.content_id, IMAGE_ID);
    assert_eq!(snapshot.javascript.reference, "plimsoll/sandbox:latest");
    assert_eq!(
        snapshot.javascript.environment,
        [("PATH".to_owned(), "/usr/bin".to_owned())]
    );
    assert_eq!(snapshot.javascript.identity(), format!("docker-image:{IMAGE_ID}"));
    assert!(Arc::ptr_eq(&snapshot.javascript, &snapshot.project));
    assert_eq!((snapshot.platform, snapshot.javascript.manifest.as_str()), (None, ""));
    assert_eq!(snapshot.facts.cpus, 2);
}

#[tokio::test]
async fn the_tier_is_kernel_only_under_a_runsc_that_is_registered_as_runsc() {
    use plimsoll_core::Tier;
    assert_eq!(outcome(|_| (), &[]).await.unwrap().tier(), Tier::Container);
    let runsc = [("SANDBOX_DOCKER_RUNTIME", "runsc")];
    assert_eq!(outcome(|_| (), &runsc).await.unwrap().tier(), Tier::Kernel);
    let runc = [("SANDBOX_DOCKER_RUNTIME", "runc")];
    assert_eq!(outcome(|_| (), &runc).await.unwrap().tier(), Tier::Container);
    for runtimes in [
        json!({}),
        json!(null),
        json!({ "runsc": { "path": "runc" } }),
        json!({ "runsc": {} }),
    ] {
        let error = outcome(
            |fake| fake.on("GET", "/info", [info_with("Runtimes", runtimes)]),
            &runsc,
        )
        .await
        .unwrap_err();
        assert!(matches!(error, PreflightError::Runtime(_)), "{error}");
    }
}

#[tokio::test]
async fn each_image_is_looked_at_once_and_never_pulled() {
    let fake = FakeEngine::healthy();
    let socket = fake.socket().to_str().unwrap();
    let both = [("DOCKER_HOST", socket), ("SANDBOX_DOCKER_PROJECT_IMAGE", "other:1")];
    let snapshot = preflight(&settings(&both), None).await.unwrap();
    assert_eq!(snapshot.project.reference, "other:1");
    let paths: Vec<String> = fake.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(
        paths,
        [
            "/version",
            "/info",
            "/images/plimsoll/sandbox:latest/json",
            "/images/other:1/json"
        ]
    );
    fake.on("GET", "/images/other:1/json", [Reply::failure(404, "no such image")]);
    let error = preflight(&settings(&both), None).await.unwrap_err();
    assert!(
        matches!(&error, PreflightError::ImageAbsent { reference } if reference == "other:1"),
        "{error}"
    );
    assert!(error.to_string().contains("plimsoll images build"), "{error}");
    assert!(fake.asked().iter().all(|asked| asked.method == http::Method::GET));
}

#[tokio::test]
async fn an_image_that_cannot_be_described_fails_closed() {
    for body in ["null", "", "{\"Id\":", "{\"Config\":{}}"] {
        let error = outcome(|fake| fake.on("GET", "/images/*", [Reply::Raw(200, body.into())]), &[])
            .await
            .unwrap_err();
        assert!(
            matches!(error, PreflightError::ImageUnreadable { .. }),
            "{body:?}: {error}"
        );
    }
    for answer in [
        image("abc"),
        image("sha256:abc"),
        json!({ "Id": IMAGE_ID }),
        json!({ "Id": IMAGE_ID, "Config": null }),
    ] {
        let reply = Reply::Json(200, answer.clone());
        let error = outcome(|fake| fake.on("GET", "/images/*", [reply]), &[])
            .await
            .unwrap_err();
        assert!(
            matches!(error, PreflightError::ImageRefused { .. }),
            "{answer}: {error}"
        );
    }
}

#[tokio::test]
async fn declared_volumes_are_refused_and_listed_in_order() {
    let reply = image_with(json!({ "Volumes": { "/data": {}, "/cache": {} } }));
    let error = outcome(|fake| fake.on("GET", "/images/*", [reply]), &[])
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("VOLUME /cache, /data"), "{error}");
}

#[tokio::test]
async fn what_the_loader_obeys_is_refused_and_the_rest_is_for_guests() {
    let look = async |entry: &str| {
        let reply = image_with(json!({ "Env": ["PATH=/bin", entry] }));
        outcome(|fake| fake.on("GET", "/images/*", [reply]), &[]).await
    };
    for entry in [
        "LD_PRELOAD=x",
        "LD_AUDIT=/a.so",
        "LD_=",
        "GLIBC_TUNABLES=x",
        "LOCPATH=/l",
        "NLSPATH=/n",
        "GCONV_PATH=/g",
        "FOO",
        "=x",
        "",
    ] {
        let error = look(entry).await.unwrap_err();
        assert!(
            matches!(error, PreflightError::ImageRefused { .. }),
            "{entry:?}: {error}"
        );
    }
    for (name, value) in [
        ("NODE_OPTIONS", "--require /hook.js"),
        ("spring.profiles.active", "x"),
        ("-x", "1"),
        ("A", "b=c"),
    ] {
        let snapshot = look(&format!("{name}={value}")).await.unwrap();
        assert_eq!(snapshot.javascript.environment[1], (name.to_owned(), value.to_owned()));
    }
}

#[tokio::test]
async fn a_host_that_cannot_enforce_a_limit_does_not_serve() {
    for name in ["MemoryLimit", "SwapLimit", "CpuCfsQuota", "CPUSet", "PidsLimit"] {
        for value in [json!(false), json!(null)] {
            let error = outcome(|fake| fake.on("GET", "/info", [info_with(name, value)]), &[])
                .await
                .unwrap_err();
            assert!(matches!(error, PreflightError::Kernel { .. }), "{name}: {error}");
        }
    }
    let fake = FakeEngine::healthy();
    let mut settings = fake.settings();
    settings.limits.cpus = 2.5;
    let error = preflight(&settings, None).await.unwrap_err().to_string();
    assert!(
        error.starts_with("SANDBOX_CPUS=2.5") && error.contains("host has 2"),
        "{error}"
    );
}

#[tokio::test]
async fn memory_that_the_host_does_not_have_is_refused_before_anything_takes_it() {
    let fake = FakeEngine::healthy();
    let mut settings = fake.settings();
    settings.limits.memory_mib = 8 << 10;
    preflight(&settings, None).await.unwrap();
    settings.limits.memory_mib += 1;
    let error = preflight(&settings, None).await.unwrap_err().to_string();
    assert!(
        error.starts_with("SANDBOX_MEMORY_MB=8193: ") && error.contains("has 8192 MiB; set it to at most 8192"),
        "{error}"
    );
    fake.on("GET", "/info", [info_with("MemTotal", json!(0))]);
    preflight(&settings, None).await.unwrap();
}

#[test]
fn a_socket_that_may_not_be_opened_is_not_an_engine_that_is_not_there() {
    let socket = std::path::Path::new("/run/docker.sock");
    let of = |kind: std::io::ErrorKind| {
        let error = EngineError::of_connect(socket, &kind.into());
        let endpoint = "unix:///run/docker.sock".to_owned();
        PreflightError::Engine { endpoint, error }.to_string()
    };
    let forbidden = of(std::io::ErrorKind::PermissionDenied);
    assert!(
        forbidden.contains("may not open") && forbidden.contains("group docker") && !forbidden.contains("DOCKER_HOST"),
        "{forbidden}"
    );
    let absent = of(std::io::ErrorKind::NotFound);
    assert!(
        absent.ends_with("start the engine, or point DOCKER_HOST at its socket"),
        "{absent}"
    );
}

#[tokio::test]
async fn an_engine_that_is_not_there_or_too_old_is_named_with_its_socket() {
    let error = preflight(&settings(&[("DOCKER_HOST", "/nonexistent.sock")]), None)
        .await
        .unwrap_err();
    assert!(error.to_string().starts_with("unix:///nonexistent.sock"), "{error}");
    let old = |fake: &FakeEngine| fake.on("GET", "/version", [Reply::Json(200, version("1.40"))]);
    let error = outcome(old, &[]).await.unwrap_err().to_string();
    assert!(error.contains("1.41") && error.contains("Docker 20.10"), "{error}");
    let mut remote = settings(&[]);
    remote.client.host = Some("tcp://10.0.0.1:2375".to_owned());
    let remote = preflight(&remote, None).await;
    assert!(matches!(
        remote,
        Err(PreflightError::Endpoint(EndpointError::Remote { .. }))
    ));
}

#[tokio::test]
async fn configuration_is_checked_in_order_and_before_the_engine_is_asked() {
    let fake = FakeEngine::healthy();
    let mut settings = fake.settings();
    settings.image = "-x".to_owned();
    settings.guest_uid = 60_001;
    settings.require_pinned = true;
    settings.seccomp = crate::seccomp::SeccompSetting::File("/nonexistent.json".into());
    let malformed = preflight(&settings, None).await;
    assert!(matches!(
        malformed,
        Err(PreflightError::Reference(ImageRefError::Malformed { .. }))
    ));
    settings.image = "plimsoll/sandbox".to_owned();
    assert!(matches!(
        preflight(&settings, None).await,
        Err(PreflightError::GuestUid(_))
    ));
    settings.guest_uid = 61_000;
    let loose = preflight(&settings, None).await;
    assert!(matches!(
        loose,
        Err(PreflightError::Reference(ImageRefError::NotPinned { .. }))
    ));
    settings.require_pinned = false;
    assert!(matches!(
        preflight(&settings, None).await,
        Err(PreflightError::Seccomp(_))
    ));
    assert_eq!(fake.asked().len(), 0);
}

/// An engine of API 1.49 whose image, looked at for a platform, gives this answer.
fn platform_engine(fake: &FakeEngine, answer: Value) {
    fake.on("GET", "/version", [Reply::Json(200, version("1.49"))]);
    fake.on("GET", &format!("/images/{IMAGE_ID}/json"), [Reply::Json(200, answer)]);
}

#[tokio::test]
async fn a_newer_engine_verifies_the_platform_and_states_the_manifest() {
    let manifest = json!({
        "Id": IMAGE_ID,
        "Os": "linux",
        "Architecture": "amd64",
        "Descriptor": { "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": IMAGE_ID },
        "Config": { "Env": ["INNER=1"] },
    });
    let snapshot = outcome(|fake| platform_engine(fake, manifest.clone()), &[])
        .await
        .unwrap();
    assert_eq!(snapshot.platform.as_deref(), Some("linux/amd64"));
    assert_eq!(
        snapshot.javascript.manifest,
        format!("oci-manifest:linux/amd64@{IMAGE_ID}")
    );
    assert_eq!(snapshot.javascript.environment, [("INNER".to_owned(), "1".to_owned())]);
    let mut hostile = manifest.clone();
    hostile["Config"] = json!({ "Volumes": { "/data": {} } });
    let error = outcome(|fake| platform_engine(fake, hostile), &[]).await.unwrap_err();
    assert!(matches!(error, PreflightError::ImageRefused { .. }), "{error}");
    // The engine answers for its own platform; another was asked for.
    let arm = [("DOCKER_DEFAULT_PLATFORM", "linux/aarch64")];
    let snapshot = outcome(|fake| platform_engine(fake, manifest), &arm).await.unwrap();
    assert_eq!(snapshot.platform.as_deref(), Some("linux/arm64"));
    assert_eq!(snapshot.javascript.manifest, "");
    let absent = |fake: &FakeEngine| {
        fake.on("GET", "/version", [Reply::Json(200, version("1.49"))]);
        fake.on(
            "GET",
            &format!("/images/{IMAGE_ID}/json"),
            [Reply::failure(404, "no such platform")],
        );
    };
    let error = outcome(absent, &arm).await.unwrap_err().to_string();
    assert!(error.contains("linux/arm64"), "{error}");
}

#[tokio::test]
async fn an_older_engine_serves_only_where_no_platform_has_to_be_verified() {
    let chosen = [("DOCKER_DEFAULT_PLATFORM", "linux/amd64")];
    let error = outcome(|_| (), &chosen).await.unwrap_err();
    assert!(matches!(error, PreflightError::Platform { .. }), "{error}");
    let containerd = json!([["driver-type", "io.containerd.snapshotter.v1"]]);
    let change = |fake: &FakeEngine| fake.on("GET", "/info", [info_with("DriverStatus", containerd)]);
    let error = outcome(change, &[]).await.unwrap_err();
    assert!(matches!(error, PreflightError::Platform { .. }), "{error}");
}
