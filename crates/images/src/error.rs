//! What can go wrong while an image is built, and what to do about it.

/// Why an image was not built, loaded or found in order.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// A file of this host could not be read or written; the text names it.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A package manager of this host is missing.
    #[error("{client} is needed to {doing}, and this host has none: {fix}")]
    NoClient {
        /// The program.
        client: &'static str,
        /// What it was wanted for.
        doing: &'static str,
        /// Where to get it.
        fix: &'static str,
    },
    /// A package manager of this host failed.
    #[error("{client} could not {doing}: {said}")]
    Client {
        /// The program.
        client: &'static str,
        /// What it was asked to do.
        doing: String,
        /// The end of what it said.
        said: String,
    },
    /// A package is not what the lock file says it is, or holds what no image may hold.
    #[error("package {package}: {problem}")]
    Package {
        /// Name and version.
        package: String,
        /// What is wrong, and the fix where there is one.
        problem: String,
    },
    /// A recipe, a lock file or the toolchain file contradicts itself or the others.
    #[error("{file}: {problem}")]
    Recipe {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// The request itself is wrong.
    #[error("{0}")]
    Request(String),
    /// The guest binary is missing or would not run in an image.
    #[error("guest binary {path}: {problem}")]
    GuestBinary {
        /// The file.
        path: String,
        /// What is wrong, and the fix.
        problem: String,
    },
    /// The engine could not be reached, or refused the image.
    #[error("container engine at {endpoint}: {problem}")]
    Engine {
        /// The socket.
        endpoint: String,
        /// What is wrong, and the fix where there is one.
        problem: String,
    },
}

impl ImagesError {
    pub(crate) fn package(package: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        Self::Package {
            package: package.into(),
            problem: problem.to_string(),
        }
    }

    pub(crate) fn recipe(file: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        Self::Recipe {
            file: file.into(),
            problem: problem.to_string(),
        }
    }
}

/// Where the lines about long steps go: one call, one line, without a line end.
pub type Progress<'a> = &'a (dyn Fn(&str) + Sync);
