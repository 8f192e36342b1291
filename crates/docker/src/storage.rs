//! What a container may write, and where: three sized tmpfs mounts within one budget.

/// Size of `/tmp` and of `/dev/shm` in MiB unless configured.
const DEFAULT_SMALL_MIB: i64 = 16;

/// Size of `/work` in MiB unless configured or given by a budget.
const DEFAULT_WORK_MIB: i64 = 128;

/// Sizes as configured, in MiB; `None` is the default, a budget of `None` is no aggregate bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageSettings {
    /// What all three together may hold.
    pub budget: Option<i64>,
    /// `/tmp`.
    pub tmp: Option<i64>,
    /// `/dev/shm`.
    pub shm: Option<i64>,
    /// `/work`.
    pub work: Option<i64>,
}

/// Sizes in MiB. The pages are charged to the container's memory as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// `/tmp`.
    pub tmp: u32,
    /// `/dev/shm`.
    pub shm: u32,
    /// `/work`, where it is mounted.
    pub work: u32,
}

/// The sizes cannot hold together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// A size below zero, or beyond what can be counted.
    #[error("the size of {mount} is {mib} MiB; set one from 0 to {}", u32::MAX)]
    Size {
        /// Which mount.
        mount: &'static str,
        /// The size as configured.
        mib: i64,
    },
    /// Nothing is left for `/work`.
    #[error("{budget} MiB leave no room for /work beside /tmp ({tmp} MiB) and /dev/shm ({shm} MiB); at least {} are needed", tmp + shm + 1)]
    NoRoom {
        /// The budget.
        budget: i64,
        /// `/tmp`.
        tmp: i64,
        /// `/dev/shm`.
        shm: i64,
    },
    /// The sizes add up to more than the budget.
    #[error("/tmp, /dev/shm and /work together are {total} MiB, more than the {budget} MiB of disk a run may have")]
    OverBudget {
        /// The budget.
        budget: i64,
        /// The sum.
        total: i64,
    },
}

impl StorageSettings {
    /// Works the sizes out.
    ///
    /// # Errors
    /// A negative size, or sizes that the budget cannot hold.
    pub fn resolve(self) -> Result<Storage, StorageError> {
        let tmp = self.tmp.unwrap_or(DEFAULT_SMALL_MIB);
        let shm = self.shm.unwrap_or(DEFAULT_SMALL_MIB);
        let sized = Storage {
            tmp: size("/tmp", tmp)?,
            shm: size("/dev/shm", shm)?,
            work: 0,
        };
        let Some(budget) = self.budget else {
            let work = size("/work", self.work.unwrap_or(DEFAULT_WORK_MIB))?;
            return Ok(Storage { work, ..sized });
        };
        size("the disk budget", budget)?;
        let work = self.work.unwrap_or(budget - tmp - shm);
        if work < 1 {
            // A size that was configured is wrong by itself; one that is left over means the budget is too small.
            return Err(match self.work {
                Some(mib) => StorageError::Size { mount: "/work", mib },
                None => StorageError::NoRoom { budget, tmp, shm },
            });
        }
        let total = tmp + shm + work;
        if total > budget {
            return Err(StorageError::OverBudget { budget, total });
        }
        let work = size("/work", work)?;
        Ok(Storage { work, ..sized })
    }
}

fn size(mount: &'static str, mib: i64) -> Result<u32, StorageError> {
    u32::try_from(mib).map_err(|_| StorageError::Size { mount, mib })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_budget_the_defaults_hold() {
        let storage = StorageSettings::default().resolve().unwrap();
        assert_eq!((storage.tmp, storage.shm, storage.work), (16, 16, 128));
    }

    #[test]
    fn the_work_mount_gets_what_the_budget_leaves() {
        let of = |settings: StorageSettings| settings.resolve().map(|storage| storage.work);
        let budget = |mib| StorageSettings {
            budget: Some(mib),
            ..StorageSettings::default()
        };
        assert_eq!(of(budget(256)), Ok(224));
        assert_eq!(of(budget(33)), Ok(1));
        let tmp = Some(32);
        assert_eq!(of(StorageSettings { tmp, ..budget(512) }), Ok(464));
    }

    #[test]
    fn a_budget_that_cannot_hold_the_sizes_is_refused() {
        let budget = |mib| StorageSettings {
            budget: Some(mib),
            ..StorageSettings::default()
        };
        let small = budget(32).resolve().unwrap_err();
        assert!(matches!(small, StorageError::NoRoom { .. }));
        assert!(small.to_string().contains("at least 33"), "{small}");
        let work = Some(128);
        assert_eq!(
            StorageSettings { work, ..budget(128) }.resolve(),
            Err(StorageError::OverBudget {
                budget: 128,
                total: 160
            })
        );
        let work = Some(0);
        let none = StorageSettings { work, ..budget(128) }.resolve();
        assert!(matches!(none, Err(StorageError::Size { mount: "/work", .. })));
    }

    #[test]
    fn no_size_is_negative() {
        for settings in [
            StorageSettings {
                tmp: Some(-1),
                ..StorageSettings::default()
            },
            StorageSettings {
                shm: Some(-1),
                ..StorageSettings::default()
            },
            StorageSettings {
                work: Some(-1),
                ..StorageSettings::default()
            },
            StorageSettings {
                budget: Some(-1),
                ..StorageSettings::default()
            },
            StorageSettings {
                budget: Some(512),
                tmp: Some(-1),
                ..StorageSettings::default()
            },
        ] {
            assert!(
                matches!(settings.resolve(), Err(StorageError::Size { .. })),
                "{settings:?}"
            );
        }
    }
}
