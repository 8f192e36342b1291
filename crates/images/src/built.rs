//! What was built: an image by its layers, and the archive that engines load.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use fs_err as fs;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::digest::Hash;
use crate::error::ImagesError;
use crate::lock::Lock;
use crate::store::Store;

/// A built image.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Built {
    /// Its name and tag, e.g. `plimsoll/sandbox:latest`.
    pub tag: String,
    /// The content ID that engines give it: the hash of its configuration.
    pub id: Hash,
    /// The hash of its OCI manifest.
    pub manifest: Hash,
    /// Its layers, lowest first.
    pub layers: Vec<Layer>,
    /// What every process of a guest sees.
    pub env: BTreeMap<String, String>,
    /// The time of its files, in seconds since 1970.
    pub time: u64,
    /// Its packages, with those of the images it stands on: those first.
    pub locks: Vec<Lock>,
}

/// A layer of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// What is in it.
    pub title: String,
    /// The hash of its archive.
    pub hash: Hash,
    /// The length of its archive, in bytes.
    pub size: u64,
}

impl Built {
    /// Puts an image together and keeps its configuration and its manifest in the store.
    pub(crate) fn assemble(
        store: &Store,
        tag: &str,
        layers: Vec<Layer>,
        env: BTreeMap<String, String>,
        time: u64,
        locks: Vec<Lock>,
    ) -> Result<Self, ImagesError> {
        let created = rfc3339(time);
        let history: Vec<_> = layers
            .iter()
            .map(|layer| json!({"created": created, "created_by": "plimsoll images", "comment": layer.title}))
            .collect();
        let variables: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let diff_ids: Vec<String> = layers.iter().map(|layer| layer.hash.digest()).collect();
        // The user, the folder and the command are for people who start the image by hand; a run sets its own.
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "created": created,
            "config": {"Env": variables, "Cmd": ["/bin/sh"], "User": "65534:65534", "WorkingDir": "/work"},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history,
        });
        let config = config.to_string();
        let (id, size) = store.write_blob(|out| out.write_all(config.as_bytes()))?;
        let descriptors: Vec<_> = layers
            .iter()
            .map(|layer| descriptor("application/vnd.oci.image.layer.v1.tar", layer.hash, layer.size))
            .collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": descriptor("application/vnd.oci.image.config.v1+json", id, size),
            "layers": descriptors,
        });
        let manifest = manifest.to_string();
        let (manifest, _) = store.write_blob(|out| out.write_all(manifest.as_bytes()))?;
        let built = Self {
            tag: tag.to_owned(),
            id,
            manifest,
            layers,
            env,
            time,
            locks,
        };
        store.keep_built(&built)?;
        Ok(built)
    }

    /// The length of its layers, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.layers.iter().map(|layer| layer.size).sum()
    }

    /// Its archive, as engines load it and as an OCI layout at the same time; and its length in bytes.
    ///
    /// # Errors
    ///
    /// When a file of the store is missing.
    pub fn archive(&self, store: &Store) -> Result<(impl Read + Send + use<>, u64), ImagesError> {
        let mut blobs: Vec<Hash> = self.layers.iter().map(|layer| layer.hash).collect();
        blobs.extend([self.id, self.manifest]);
        blobs.sort();
        blobs.dedup();
        let manifest_size = fs::metadata(store.blob_path(self.manifest))?.len();
        let mut index = descriptor(MANIFEST_TYPE, self.manifest, manifest_size);
        index["annotations"] = json!({
            "io.containerd.image.name": format!("docker.io/{}", self.tag),
            "org.opencontainers.image.ref.name": self.tag.rsplit_once(':').map_or("latest", |(_, tag)| tag),
        });
        let index =
            json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [index]});
        let layers: Vec<String> = self.layers.iter().map(|layer| blob_name(layer.hash)).collect();
        let docker = json!([{"Config": blob_name(self.id), "RepoTags": [self.tag], "Layers": layers}]);

        let mut parts = Archive::new(self.time);
        parts.directory("blobs/")?;
        parts.directory("blobs/sha256/")?;
        for blob in blobs {
            parts.file(&blob_name(blob), fs::File::open(store.blob_path(blob))?)?;
        }
        parts.bytes("index.json", index.to_string().into_bytes())?;
        parts.bytes("manifest.json", docker.to_string().into_bytes())?;
        parts.bytes("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec())?;
        Ok(parts.finish())
    }
}

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// An archive that is read piece by piece: the layers stay in their files until they are sent.
struct Archive {
    time: u64,
    length: u64,
    parts: Box<dyn Read + Send>,
}

impl Archive {
    const BLOCK: u64 = 512;

    fn new(time: u64) -> Self {
        Self {
            time,
            length: 0,
            parts: Box::new(std::io::empty()),
        }
    }

    fn directory(&mut self, name: &str) -> std::io::Result<()> {
        let header = self.header(name, tar::EntryType::Directory, 0o755, 0)?;
        self.push(Cursor::new(header), Self::BLOCK);
        Ok(())
    }

    fn file(&mut self, name: &str, file: fs::File) -> std::io::Result<()> {
        let length = file.metadata()?.len();
        self.entry(name, file.take(length), length)
    }

    fn bytes(&mut self, name: &str, bytes: Vec<u8>) -> std::io::Result<()> {
        let length = bytes.len() as u64;
        self.entry(name, Cursor::new(bytes), length)
    }

    fn entry(&mut self, name: &str, content: impl Read + Send + 'static, length: u64) -> std::io::Result<()> {
        let header = self.header(name, tar::EntryType::Regular, 0o644, length)?;
        let padding = length.next_multiple_of(Self::BLOCK) - length;
        self.push(Cursor::new(header), Self::BLOCK);
        self.push(content, length);
        self.push(std::io::repeat(0).take(padding), padding);
        Ok(())
    }

    fn header(&self, name: &str, kind: tar::EntryType, mode: u32, size: u64) -> std::io::Result<Vec<u8>> {
        let mut header = tar::Header::new_ustar();
        header.set_path(name)?;
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(self.time);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(size);
        header.set_cksum();
        Ok(header.as_bytes().to_vec())
    }

    fn push(&mut self, part: impl Read + Send + 'static, length: u64) {
        let before = std::mem::replace(&mut self.parts, Box::new(std::io::empty()));
        self.parts = Box::new(before.chain(part));
        self.length += length;
    }

    fn finish(mut self) -> (Box<dyn Read + Send>, u64) {
        self.push(std::io::repeat(0).take(2 * Self::BLOCK), 2 * Self::BLOCK);
        (self.parts, self.length)
    }
}

fn descriptor(media_type: &str, hash: Hash, size: u64) -> serde_json::Value {
    json!({"mediaType": media_type, "digest": hash.digest(), "size": size})
}

fn blob_name(hash: Hash) -> String {
    format!("blobs/sha256/{hash}")
}

/// The time as RFC 3339 in UTC, to the second.
pub(crate) fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from 0000-03-01, so that the leap day is the last of its year; an era has 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn the_archive_is_a_whole_oci_layout_of_the_stated_length() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (hash, size) = store.write_blob(|out| out.write_all(b"layer")).unwrap();
        let layers = vec![Layer {
            title: "l".to_owned(),
            hash,
            size,
        }];
        let env = BTreeMap::from([("A".to_owned(), "b".to_owned())]);
        let built = Built::assemble(&store, "x/y:latest", layers, env, 0, Vec::new()).unwrap();
        let (mut archive, length) = built.archive(&store).unwrap();
        let mut bytes = Vec::new();
        archive.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, length);
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(entry.path().unwrap().to_string_lossy().into_owned(), content);
        }
        for (name, content) in &files {
            if let Some(hex) = name.strip_prefix("blobs/sha256/").filter(|hex| !hex.is_empty()) {
                assert_eq!(Hash::of(content).to_string(), hex);
            }
        }
        let docker: serde_json::Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
        let config: serde_json::Value = serde_json::from_slice(&files[docker[0]["Config"].as_str().unwrap()]).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], hash.digest());
        assert_eq!(config["config"]["Env"][0], "A=b");
        assert!(config["config"].get("Volumes").is_none());
        assert_eq!(docker[0]["RepoTags"][0], "x/y:latest");
        assert_eq!(files[docker[0]["Layers"][0].as_str().unwrap()], b"layer");
        assert!(files.contains_key("oci-layout") && files.contains_key("index.json"));
        assert_eq!(store.built("x/y:latest").unwrap().unwrap().id, built.id);
    }
}
