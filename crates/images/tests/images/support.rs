//! One build for all tests, kept between runs of them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plimsoll_images::{BuildOptions, Built, Engine, SHIPPED, Store, build};

pub(crate) const SOCKET: &str = "/var/run/docker.sock";

/// A program header and nothing to run: enough for the check that the guest binary is static.
pub(crate) fn stand_in(folder: &Path) -> PathBuf {
    let mut bytes = vec![0; 64 + 56];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    (bytes[18], bytes[32], bytes[54], bytes[56], bytes[64]) = (62, 64, 56, 1, 1);
    let path = folder.join("plimsoll-guest");
    fs_err::write(&path, bytes).unwrap();
    path
}

pub(crate) fn build_all(store: &Store) -> Vec<Built> {
    let all: Vec<_> = SHIPPED.iter().collect();
    let options = BuildOptions {
        guest_binary: &stand_in(store.root()),
        apt_sources: None,
        offline: false,
        progress: &|_| {},
    };
    let outcomes = build(store, &all, options).unwrap();
    outcomes.into_iter().map(|outcome| outcome.built).collect()
}

/// Packages are fetched once and kept for the next run of the tests.
pub(crate) fn store() -> &'static (Store, Vec<Built>) {
    static STORE: OnceLock<(Store, Vec<Built>)> = OnceLock::new();
    STORE.get_or_init(|| {
        let store = Store::open(Path::new(env!("CARGO_TARGET_TMPDIR")).join("images")).unwrap();
        let built = build_all(&store);
        (store, built)
    })
}

/// The image of that name under a name of these tests, loaded: whatever is under its own name stays.
pub(crate) fn loaded(name: &str) -> String {
    let (store, all) = store();
    let built = all
        .iter()
        .find(|built| built.tag == format!("plimsoll/{name}:latest"))
        .unwrap();
    load(store, built, &format!("plimsoll-test/{name}:images"))
}

pub(crate) fn load(store: &Store, built: &Built, tag: &str) -> String {
    let renamed = Built {
        tag: tag.to_owned(),
        ..built.clone()
    };
    let engine = Engine::at(SOCKET);
    block_on(engine.load(store, &renamed)).unwrap();
    let id = block_on(engine.image_id(tag)).unwrap();
    assert_eq!(id, Some(built.id.digest()));
    built.id.digest()
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}
