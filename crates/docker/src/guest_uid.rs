//! The user of every guest process: a number nobody else on this host has.

use std::ops::RangeInclusive;

/// The user unless configured; in a band that no system manager hands out.
pub const DEFAULT_GUEST_UID: u32 = 61_000;

/// Never root, and the next number too stays below 65534 and inside a user namespace of 65536.
const BOUNDS: RangeInclusive<u32> = 1..=65_532;

/// Numbers a system manager hands out without writing them into the account files.
const HANDED_OUT: [RangeInclusive<u32>; 3] = [60_001..=60_513, 60_578..=60_705, 61_184..=65_519];

/// The account files: users with their primary groups, and groups.
const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// A user that guests must not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestUidError {
    /// Outside the bounds.
    #[error("SANDBOX_GUEST_UID={uid}: set it from {} to {} (the default is {DEFAULT_GUEST_UID})", BOUNDS.start(), BOUNDS.end())]
    OutOfBounds {
        /// The number.
        uid: u32,
    },
    /// It or the next number may be handed out.
    #[error(
        "SANDBOX_GUEST_UID={uid}: {uid} or {} lies within {} to {}, which a system manager hands out; set another (the default is {DEFAULT_GUEST_UID})",
        uid + 1, band.start(), band.end()
    )]
    HandedOut {
        /// The number.
        uid: u32,
        /// The band.
        band: RangeInclusive<u32>,
    },
    /// It or the next number stands in an account file.
    #[error("SANDBOX_GUEST_UID={uid}: {taken} is already used in {file}; set a number that this host does not use")]
    Taken {
        /// The number.
        uid: u32,
        /// Which of the two is taken.
        taken: u32,
        /// Where.
        file: &'static str,
    },
    /// An account file exists and cannot be read.
    #[error("SANDBOX_GUEST_UID={uid} cannot be checked: {problem}; make the file readable")]
    Unreadable {
        /// The number.
        uid: u32,
        /// Which file and why.
        problem: String,
    },
}

impl GuestUidError {
    /// What is wrong, without the variable and the fix.
    pub fn problem(&self) -> String {
        match self {
            Self::OutOfBounds { .. } => format!("outside {} to {}", BOUNDS.start(), BOUNDS.end()),
            Self::HandedOut { band, .. } => {
                format!(
                    "it or the next number lies within {} to {}, which a system manager hands out",
                    band.start(),
                    band.end()
                )
            }
            Self::Taken { taken, file, .. } => format!("{taken} is already used in {file}"),
            Self::Unreadable { problem, .. } => problem.clone(),
        }
    }
}

/// Checks the number by itself.
///
/// # Errors
/// Out of bounds, or in a band that is handed out; the next number counts too.
pub fn check(uid: u32) -> Result<(), GuestUidError> {
    if !BOUNDS.contains(&uid) {
        return Err(GuestUidError::OutOfBounds { uid });
    }
    let band = HANDED_OUT
        .iter()
        .find(|band| band.contains(&uid) || band.contains(&(uid + 1)));
    band.map_or(Ok(()), |band| {
        Err(GuestUidError::HandedOut {
            uid,
            band: band.clone(),
        })
    })
}

/// Checks the number by itself and against this host's account files. A missing file is passed over.
///
/// # Errors
/// As [`check`], taken, or a file that cannot be read.
pub fn check_on_host(uid: u32) -> Result<(), GuestUidError> {
    check(uid)?;
    for (file, columns) in [(PASSWD, &[2, 3][..]), (GROUP, &[2][..])] {
        match fs_err::read(file) {
            Ok(text) => check_accounts(uid, file, &text, columns)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let problem = error.to_string();
                return Err(GuestUidError::Unreadable { uid, problem });
            }
        }
    }
    Ok(())
}

/// Looks for the number and the next one in these columns of an account file. Names and comments may be in any encoding.
fn check_accounts(uid: u32, file: &'static str, text: &[u8], columns: &[usize]) -> Result<(), GuestUidError> {
    for line in text.split(|byte| *byte == b'\n') {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        if fields.len() < 3 {
            continue;
        }
        for column in columns {
            let number = fields
                .get(*column)
                .and_then(|field| std::str::from_utf8(field).ok()?.trim().parse::<u64>().ok());
            let taken = [uid, uid + 1].into_iter().find(|own| number == Some(u64::from(*own)));
            if let Some(taken) = taken {
                return Err(GuestUidError::Taken { uid, taken, file });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_and_the_bands_hold_for_the_next_number_too() {
        for uid in [0, 65_533, u32::MAX] {
            assert!(matches!(check(uid), Err(GuestUidError::OutOfBounds { .. })), "{uid}");
        }
        for uid in [60_001, 60_000, 60_513, 60_577, 60_705, 61_183, 61_184, 65_519] {
            assert!(matches!(check(uid), Err(GuestUidError::HandedOut { .. })), "{uid}");
        }
        for uid in [
            1,
            59_999,
            60_514,
            60_576,
            60_706,
            DEFAULT_GUEST_UID,
            61_182,
            65_520,
            65_532,
        ] {
            assert_eq!(check(uid), Ok(()), "{uid}");
        }
    }

    #[test]
    fn a_number_in_the_account_files_is_taken_however_it_is_written() {
        let passwd = |text: &str| check_accounts(61_000, PASSWD, text.as_bytes(), &[2, 3]);
        let group = |text: &str| check_accounts(61_000, GROUP, text.as_bytes(), &[2]);
        assert!(passwd("root:x:0:0::/:/bin/sh\nx:x:061000:100::/:/bin/sh\n").is_err());
        assert!(passwd("x:x:1000:61001::/:/bin/sh").is_err());
        assert_eq!(
            group("x:x:61001:"),
            Err(GuestUidError::Taken {
                uid: 61_000,
                taken: 61_001,
                file: GROUP
            })
        );
        assert_eq!(group("x:x:1000:61000\n61000:61000"), Ok(()));
        assert_eq!(passwd("short:61000\n\nx:x:610000:1::/:\nx:x::61000x:/:"), Ok(()));
        let latin = b"x:\xe9:61000:1::/:/bin/sh";
        assert!(check_accounts(61_000, PASSWD, latin, &[2, 3]).is_err());
    }
}
