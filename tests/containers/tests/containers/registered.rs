//! What an engine's operator may have registered as `runsc` that is not what the kernel tier rests on.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::own_engine::{OwnEngine, shared_runsc};
use crate::support::{own_sandbox, run};

/// Why no sandbox is started on this engine under `runsc`.
async fn refused(own: &OwnEngine) -> String {
    let host = own.host();
    match own_sandbox(&[("DOCKER_HOST", &host), ("SANDBOX_DOCKER_RUNTIME", "runsc")]).await {
        Ok(_) => panic!("a sandbox was started"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_runsc_that_opens_no_host_socket_or_is_not_gvisor_is_refused_at_the_start() {
    run(async {
        let own = OwnEngine::start().await;
        let runsc = shared_runsc().await;

        own.register("runsc", &json!({ "path": runsc["path"] })).await;
        let told = refused(&own).await;
        assert!(told.contains("--host-uds=open"), "{told}");

        // Another runtime under gVisor's own file name passes every look at the configuration.
        fs_err::create_dir(own.path("bin")).unwrap();
        let script = own.path("bin/runsc");
        fs_err::write(&script, "#!/bin/sh\nexec runc \"$@\"\n").unwrap();
        fs_err::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        own.register("runsc", &json!({ "path": script })).await;
        let told = refused(&own).await;
        assert!(told.contains("is not gVisor"), "{told}");

        // And under a file name of its own it does not pass those.
        let named = own.path("bin/runsc.sh");
        fs_err::rename(&script, &named).unwrap();
        own.register("runsc", &json!({ "path": named })).await;
        let told = refused(&own).await;
        assert!(told.contains("runsc.sh"), "{told}");
    });
}
