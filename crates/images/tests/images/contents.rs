//! What is in the images, read from their archives.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use plimsoll_images::{Built, GUEST_BINARY, Store};

use crate::support::{build_all, store};

/// Path, kind and mode of everything in the image's layers.
fn entries(store: &Store, built: &Built) -> BTreeMap<String, (tar::EntryType, u32)> {
    let mut all = BTreeMap::new();
    let (archive, _) = built.archive(store).unwrap();
    let layers: BTreeSet<String> = built
        .layers
        .iter()
        .map(|layer| format!("blobs/sha256/{}", layer.hash))
        .collect();
    for blob in tar::Archive::new(archive).entries().unwrap() {
        let blob = blob.unwrap();
        if !layers.contains(&*blob.path().unwrap().to_string_lossy()) {
            continue;
        }
        for entry in tar::Archive::new(std::io::BufReader::new(blob)).entries().unwrap() {
            let entry = entry.unwrap();
            assert_eq!((entry.header().uid().unwrap(), entry.header().gid().unwrap()), (0, 0));
            assert_eq!(entry.header().mtime().unwrap(), built.time);
            let path = entry.path().unwrap().to_string_lossy().trim_end_matches('/').to_owned();
            all.insert(path, (entry.header().entry_type(), entry.header().mode().unwrap()));
        }
    }
    all
}

#[test]
fn every_image_keeps_the_contract() {
    let (store, all) = store();
    for built in all {
        let entries = entries(store, built);
        for (path, (kind, mode)) in &entries {
            let expected: &[u32] = match kind {
                tar::EntryType::Directory if ["tmp", "var/tmp", "work"].contains(&path.as_str()) => &[0o1777],
                tar::EntryType::Directory => &[0o755],
                tar::EntryType::Symlink => &[0o777],
                tar::EntryType::Regular => &[0o644, 0o755],
                other => panic!("{path} is {other:?}"),
            };
            assert!(expected.contains(mode), "{}: {path} has mode {mode:o}", built.tag);
        }
        for path in [GUEST_BINARY, "usr/local/bin/node"] {
            assert_eq!(entries.get(path), Some(&(tar::EntryType::Regular, 0o755)), "{path}");
        }
        assert_eq!(entries["usr/bin/sh"].0, tar::EntryType::Symlink);
        for name in built.env.keys() {
            assert!(!name.starts_with("LD_"), "{name}");
        }
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        assert_eq!(built.env.get("PATH").map(String::as_str), Some(path));
        let pip = entries
            .keys()
            .find(|path| path.ends_with("/pip/__init__.py") || path.ends_with("bin/pip"));
        assert_eq!(pip, None);
    }
}

#[test]
fn two_builds_give_one_digest() {
    let (first, all) = store();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let second = Store::open(folder.path()).unwrap();
    for entry in fs_err::read_dir(first.root().join("packages")).unwrap() {
        let entry = entry.unwrap();
        fs_err::hard_link(entry.path(), second.root().join("packages").join(entry.file_name())).unwrap();
    }
    for (one, other) in all.iter().zip(build_all(&second)) {
        assert_eq!(one.layers, other.layers, "{}", one.tag);
        assert_eq!((one.id, one.manifest), (other.id, other.manifest), "{}", one.tag);
        let bytes = |built: &Built, store: &Store| {
            let mut head = vec![0; 1 << 16];
            built.archive(store).unwrap().0.read_exact(&mut head).unwrap();
            head
        };
        assert!(bytes(one, first) == bytes(&other, &second), "{}", one.tag);
    }
}

#[test]
fn images_stay_small() {
    let (_, all) = store();
    // Node alone is 125 MB; SciPy, NumPy and pandas with their linear algebra are 230.
    for (built, most) in all.iter().zip([230_000_000, 620_000_000]) {
        assert!(built.size() <= most, "{} has {} bytes", built.tag, built.size());
    }
}

#[test]
fn a_list_of_contents_and_a_lock_file_lie_beside_each_image() {
    let (store, all) = store();
    for built in all {
        let text = fs_err::read(store.built_path(&built.tag, "spdx.json")).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let packages = document["packages"].as_array().unwrap();
        let locked: BTreeSet<String> = built
            .locks
            .iter()
            .flat_map(|lock| lock.packages.iter().map(|package| package.sha256.to_string()))
            .collect();
        let listed: BTreeSet<String> = packages
            .iter()
            .skip(1)
            .map(|package| package["checksums"][0]["checksumValue"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(listed, locked);
        assert_eq!(document["spdxVersion"], "SPDX-2.3");
        assert!(store.built_path(&built.tag, "lock.json").exists());
        assert_eq!(plimsoll_images::verify(store, built).unwrap(), [""; 0]);
    }
}
