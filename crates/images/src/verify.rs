//! Whether what was built is still what it was.

use std::io::Read as _;

use fs_err as fs;

use crate::built::Built;
use crate::digest::{Hash, Hashing};
use crate::error::ImagesError;
use crate::store::Store;

/// Hashes the files of a built image again and compares its packages with its lock file: one line for each thing that is
/// not in order.
///
/// # Errors
///
/// When a file that is there cannot be read.
pub fn verify(store: &Store, built: &Built) -> Result<Vec<String>, ImagesError> {
    let mut wrong = Vec::new();
    let layers = built.layers.iter().map(|layer| (layer.title.as_str(), layer.hash));
    for (what, hash) in layers.chain([("configuration", built.id), ("manifest", built.manifest)]) {
        let path = store.blob_path(hash);
        if !path.exists() {
            wrong.push(format!(
                "{}: {what}: {} is missing: build again",
                built.tag,
                path.display()
            ));
        } else if hash_of(&path)? != hash {
            wrong.push(format!(
                "{}: {what}: {} has changed: delete it and build again",
                built.tag,
                path.display()
            ));
        }
    }
    for extension in ["lock.json", "spdx.json"] {
        let path = store.built_path(&built.tag, extension);
        if !path.exists() {
            wrong.push(format!("{}: {} is missing: build again", built.tag, path.display()));
        }
    }
    Ok(wrong)
}

fn hash_of(path: &std::path::Path) -> Result<Hash, ImagesError> {
    let mut hashing = Hashing::new(std::io::sink());
    let file = fs::File::open(path)?;
    std::io::copy(&mut file.take(u64::MAX), &mut hashing)?;
    Ok(hashing.finish().1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::built::Layer;

    #[test]
    fn damage_and_loss_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut layers = Vec::new();
        for title in ["one", "two"] {
            let (hash, size) = store.write_blob(|out| out.write_all(title.as_bytes())).unwrap();
            layers.push(Layer {
                title: title.to_owned(),
                hash,
                size,
            });
        }
        let built = Built::assemble(&store, "x:latest", layers, BTreeMap::new(), 0, Vec::new()).unwrap();
        for extension in ["lock.json", "spdx.json"] {
            store.keep_beside("x:latest", extension, b"{}").unwrap();
        }
        assert_eq!(verify(&store, &built).unwrap(), [""; 0]);
        fs::write(store.blob_path(built.layers[0].hash), "other").unwrap();
        fs::remove_file(store.blob_path(built.layers[1].hash)).unwrap();
        fs::remove_file(store.built_path("x:latest", "spdx.json")).unwrap();
        let wrong = verify(&store, &built).unwrap();
        assert_eq!(wrong.len(), 3);
        for (line, expected) in wrong.iter().zip(["one", "two", "spdx.json"]) {
            assert!(line.contains(expected), "{line}");
        }
    }
}
