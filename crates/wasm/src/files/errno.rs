//! Why an operation on the tree is refused.

/// A refusal. Each has the number POSIX gives it; to a guest our two limits are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    /// `ENOENT`
    NotFound,
    /// `EBUSY`: a folder that is always there.
    Busy,
    /// `EEXIST`
    Exists,
    /// `ENOTDIR`
    NotAFolder,
    /// `EISDIR`
    IsAFolder,
    /// `EINVAL`
    Invalid,
    /// `ENOSPC`: no bytes are left.
    NoSpace,
    /// `ENOSPC`: no entries are left.
    TooMany,
    /// `ENAMETOOLONG`
    NameTooLong,
    /// `ENOSYS`: there is no tree.
    NoTree,
    /// `ENOTEMPTY`
    NotEmpty,
}

impl Errno {
    /// As the import answers it: negative.
    pub(crate) const fn answer(self) -> i64 {
        -match self {
            Self::NotFound => 2,
            Self::Busy => 16,
            Self::Exists => 17,
            Self::NotAFolder => 20,
            Self::IsAFolder => 21,
            Self::Invalid => 22,
            Self::NoSpace | Self::TooMany => 28,
            Self::NameTooLong => 36,
            Self::NoTree => 38,
            Self::NotEmpty => 39,
        }
    }

    /// Its name, and what it means where that is not plain from the name or is one of our limits, for a refusal.
    pub(crate) const fn told(self) -> &'static str {
        match self {
            Self::NotFound => "ENOENT",
            Self::Busy => "EBUSY",
            Self::Exists => "EEXIST",
            Self::NotAFolder => "ENOTDIR, a folder of its path is a file",
            Self::IsAFolder => "EISDIR, there is a folder of that name",
            Self::Invalid => "EINVAL",
            Self::NoSpace => "ENOSPC, the memory limit leaves no room for it",
            Self::TooMany => "ENOSPC, there are 10000 files and folders already",
            Self::NameTooLong => "ENAMETOOLONG",
            Self::NoTree => "ENOSYS",
            Self::NotEmpty => "ENOTEMPTY",
        }
    }
}
