//! What a daemon that has hardened itself still knows of its own memory.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::limits::PROTOCOL;
use plimsoll_core::{AuthorizedOpen, OpenRequest, Permit, Resources};
use plimsoll_sandbox::{OpenContext, Sandbox, Session, Suspended};
use plimsoll_wasm::Wasm;
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use tokio_util::sync::CancellationToken;

/// A user of no account, and not root.
const NOBODY: u32 = 61_000;

/// Says to this program that it is the one to be looked at.
const INSIDE: &str = "PLIMSOLL_TEST_INSIDE";

/// Root may look at everything, so another user has to ask: this program, once more.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test starts itself as another user")]
fn a_session_is_measured_in_a_process_that_gave_up_being_dumpable() {
    if std::env::var_os(INSIDE).is_some() {
        return measured();
    }
    let folder = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let program = folder.path().join("hardened");
    fs_err::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut again = Command::new(&program);
    again.env(INSIDE, "1").current_dir("/");
    if geteuid().is_root() {
        again.uid(NOBODY).gid(NOBODY);
    }
    let output = again.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn measured() {
    assert!(!geteuid().is_root());
    plimsoll_wasm::before_hardening();
    set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap();
    assert!(fs_err::File::open("/proc/self/pagemap").is_err());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let held = runtime.unwrap().block_on(async {
        let provider = Wasm::new(Resources::default(), 1).unwrap();
        let session = open(&provider).await;
        session.suspend().await.unwrap()
    });
    // The image alone is larger; what is its own, and not shared with all others, is less.
    assert!(matches!(held, Suspended::Holds(bytes) if bytes < 4 << 20), "{held:?}");
}

async fn open(provider: &Wasm) -> Arc<dyn Session> {
    let request = OpenRequest {
        protocol: PROTOCOL,
        ..OpenRequest::default()
    };
    let open = AuthorizedOpen::new(request, &provider.evidence()).unwrap();
    let open = open.admit(Duration::from_secs(60), Permit::new(()));
    let context = OpenContext {
        deadline: Instant::now() + Duration::from_secs(20),
        cancelled: CancellationToken::new(),
        disk_bytes: 0,
    };
    provider.sessions().unwrap().open(&open, context).await.unwrap()
}
