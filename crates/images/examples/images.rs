//! Builds the images and loads them, or writes their lock files anew:
//! `cargo run --release -p plimsoll-images --example images -- lock STORE` after a change of a recipe or the toolchain
//! file, `… -- build STORE GUEST-BINARY [NAME…]` for the rest.

use std::path::Path;

use plimsoll_images::{BuildOptions, Engine, SHIPPED, Shipped, Store, build, relock};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[expect(clippy::print_stderr, reason = "an example speaks to who runs it")]
fn say(line: &str) {
    eprintln!("{line}");
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [command, store] if command == "lock" => lock(&Store::open(store)?),
        [command, store, guest, names @ ..] if command == "build" => {
            let wanted = match names {
                [] => SHIPPED.iter().collect(),
                names => names
                    .iter()
                    .map(|name| Shipped::named(name))
                    .collect::<std::result::Result<Vec<_>, _>>()?,
            };
            load(&Store::open(store)?, Path::new(guest), &wanted)
        }
        _ => Err("say: lock STORE, or: build STORE GUEST-BINARY [NAME…]".into()),
    }
}

fn lock(store: &Store) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/images");
    for image in SHIPPED {
        let lock = relock(store, image, None, &say)?;
        for line in image.lock()?.changes(&lock) {
            say(&format!("{}: {line}", image.name));
        }
        fs_err::write(folder.join(image.lock_file()), lock.to_text())?;
    }
    Ok(())
}

fn load(store: &Store, guest: &Path, wanted: &[&Shipped]) -> Result<()> {
    let options = BuildOptions {
        guest_binary: guest,
        apt_sources: None,
        offline: false,
        progress: &say,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for outcome in build(store, wanted, options)? {
        for line in outcome.lock_changes {
            say(&format!("lock change: {line}"));
        }
        say(&format!("loading {}", outcome.built.tag));
        runtime.block_on(Engine::at("/var/run/docker.sock").load(store, &outcome.built))?;
        say(&format!(
            "{} {} {} bytes",
            outcome.built.tag,
            outcome.built.id.digest(),
            outcome.built.size()
        ));
    }
    Ok(())
}
