//! The folder that builds keep things in: packages by hash, layers by hash, and what was built.
//!
//! Every file that is named by its hash was hashed on the way in; whoever can write to the folder can change images, so
//! it belongs to one user and is created readable to that user alone.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::built::Built;
use crate::digest::{Hash, Hashing};
use crate::error::ImagesError;

/// The folder.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Opens the folder, creating it where it is missing. A relative path is taken from this process's folder, once: package
    /// managers are given paths of the store and work in folders of their own.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, ImagesError> {
        let root = std::path::absolute(root.into())?;
        for folder in ["packages", "blobs", "built", "apt"] {
            fs::create_dir_all(root.join(folder))?;
        }
        Ok(Self { root })
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The private folder of apt-get: package lists are kept between builds.
    pub(crate) fn apt(&self) -> PathBuf {
        self.root.join("apt")
    }

    /// A folder that is gone when the value is dropped.
    pub(crate) fn scratch(&self) -> Result<tempfile::TempDir, ImagesError> {
        Ok(tempfile::Builder::new().prefix("work-").tempdir_in(&self.root)?)
    }

    /// Whether a package is there.
    pub(crate) fn has_package(&self, hash: Hash) -> bool {
        self.package_path(hash).exists()
    }

    /// The bytes of a package, hashed again: a disk may change what it holds.
    pub(crate) fn package(&self, hash: Hash, id: &str) -> Result<Vec<u8>, ImagesError> {
        let path = self.package_path(hash);
        let bytes = fs::read(&path)?;
        if Hash::of(&bytes) == hash {
            return Ok(bytes);
        }
        Err(ImagesError::package(
            id,
            format!("{} has changed on disk: delete it and build again", path.display()),
        ))
    }

    /// Keeps a downloaded file, and says which hash it has.
    pub(crate) fn keep_package(&self, file: &Path) -> Result<Hash, ImagesError> {
        let bytes = fs::read(file)?;
        let hash = Hash::of(&bytes);
        self.write_whole(&self.package_path(hash), &bytes)?;
        Ok(hash)
    }

    /// Writes a blob through `write` and keeps it under its hash.
    pub(crate) fn write_blob<E>(
        &self,
        write: impl FnOnce(&mut dyn std::io::Write) -> Result<(), E>,
    ) -> Result<(Hash, u64), ImagesError>
    where
        ImagesError: From<E>,
    {
        let mut file = tempfile::NamedTempFile::new_in(&self.root)?;
        let mut hashing = Hashing::new(std::io::BufWriter::with_capacity(1 << 20, &mut file));
        write(&mut hashing)?;
        let (mut buffered, hash, length) = hashing.finish();
        buffered.flush()?;
        drop(buffered);
        file.persist(self.blob_path(hash)).map_err(|error| error.error)?;
        Ok((hash, length))
    }

    /// Where a blob is.
    pub(crate) fn blob_path(&self, hash: Hash) -> PathBuf {
        self.root.join("blobs").join(hash.to_string())
    }

    /// Remembers what was built.
    pub(crate) fn keep_built(&self, built: &Built) -> Result<(), ImagesError> {
        let text = serde_json::to_vec_pretty(built).map_err(std::io::Error::from)?;
        self.write_whole(&self.built_path(&built.tag, "json"), &text)
    }

    /// Writes a file beside what was built, and says where.
    pub(crate) fn keep_beside(&self, tag: &str, extension: &str, text: &[u8]) -> Result<PathBuf, ImagesError> {
        let path = self.built_path(tag, extension);
        self.write_whole(&path, text)?;
        Ok(path)
    }

    /// What was built under a tag.
    ///
    /// # Errors
    ///
    /// When what is kept about it cannot be read.
    pub fn built(&self, tag: &str) -> Result<Option<Built>, ImagesError> {
        let path = self.built_path(tag, "json");
        if !path.exists() {
            return Ok(None);
        }
        let built = serde_json::from_slice(&fs::read(&path)?)
            .map_err(|error| ImagesError::recipe(path.display().to_string(), error))?;
        Ok(Some(built))
    }

    /// Everything that was built, by tag.
    ///
    /// # Errors
    ///
    /// When what is kept about one of them cannot be read.
    pub fn all_built(&self) -> Result<Vec<Built>, ImagesError> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.root.join("built"))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.ends_with(".json") && !name.ends_with(".lock.json") && !name.ends_with(".spdx.json") {
                let built: Built = serde_json::from_slice(&fs::read(&path)?)
                    .map_err(|error| ImagesError::recipe(path.display().to_string(), error))?;
                all.push(built);
            }
        }
        all.sort_by(|one, other| one.tag.cmp(&other.tag));
        Ok(all)
    }

    /// The file of that kind beside the built image, e.g. `spdx.json`.
    #[must_use]
    pub fn built_path(&self, tag: &str, extension: &str) -> PathBuf {
        // A tag holds neither of the two characters it is spelled with here: see `Tag`.
        let name = tag.replace('/', "+").replace(':', "=");
        self.root.join("built").join(format!("{name}.{extension}"))
    }

    fn package_path(&self, hash: Hash) -> PathBuf {
        self.root.join("packages").join(hash.to_string())
    }

    /// Never half a file under its name, not even after a crash.
    fn write_whole(&self, path: &Path, bytes: &[u8]) -> Result<(), ImagesError> {
        let mut file = tempfile::NamedTempFile::new_in(&self.root)?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_folder_is_named_whole_to_programs_that_work_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let here = std::env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = up.join(folder.path().strip_prefix("/").unwrap()).join("store");
        let store = Store::open(&relative).unwrap();
        for path in [store.root().to_owned(), store.apt(), store.blob_path(Hash::of(b""))] {
            assert!(path.is_absolute(), "{}", path.display());
        }
        assert!(folder.path().join("store/apt").is_dir());
    }

    #[test]
    fn a_package_that_changed_on_disk_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let file = folder.path().join("download");
        fs::write(&file, b"content").unwrap();
        let hash = store.keep_package(&file).unwrap();
        assert_eq!(store.package(hash, "p 1").unwrap(), b"content");
        fs::write(store.package_path(hash), b"other").unwrap();
        let error = store.package(hash, "p 1").unwrap_err().to_string();
        assert!(
            error.starts_with("package p 1: ") && error.ends_with("delete it and build again"),
            "{error}"
        );
    }

    #[test]
    fn a_blob_is_found_under_the_hash_of_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (hash, length) = store.write_blob(|out| out.write_all(b"abc")).unwrap();
        assert_eq!((hash, length), (Hash::of(b"abc"), 3));
        assert_eq!(fs::read(store.blob_path(hash)).unwrap(), b"abc");
    }
}
