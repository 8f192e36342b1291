//! Which addresses may be dialled for an origin (spec 30 §2.1).
//!
//! A name is judged by everything it resolves to: one bad answer refuses them all, because the next look-up may put it
//! first. An address the operator wrote is dialled as written. Addresses that serve machine identities are never dialled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::origin::Host;

/// A block of addresses an operator listed, without host bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    base: IpAddr,
    prefix: u8,
}

/// Why a text is no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// Not `address/bits`.
    #[error("must be a block such as 10.0.0.0/8 or fd00::/8")]
    Syntax,
    /// Bits after the prefix are set.
    #[error("must have no bit set after its prefix; write the block's first address")]
    HostBits,
}

impl Cidr {
    /// Whether an address lies in the block. An IPv4 address inside an IPv6 one counts as both.
    pub fn contains(&self, address: IpAddr) -> bool {
        [address, plain(address)].into_iter().any(|address| {
            let (base, address, width) = match (self.base, address) {
                (IpAddr::V4(base), IpAddr::V4(address)) => (base.to_bits().into(), address.to_bits().into(), 32),
                (IpAddr::V6(base), IpAddr::V6(address)) => (base.to_bits(), address.to_bits(), 128),
                _ => return false,
            };
            after_prefix(base ^ address, self.prefix, width)
        })
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, bits) = text.split_once('/').ok_or(CidrError::Syntax)?;
        let base: IpAddr = address.parse().map_err(|_| CidrError::Syntax)?;
        let written = (1..=3).contains(&bits.len()) && bits.bytes().all(|digit| digit.is_ascii_digit());
        if !written || (bits.len() > 1 && bits.starts_with('0')) {
            return Err(CidrError::Syntax);
        }
        let prefix: u8 = bits.parse().map_err(|_| CidrError::Syntax)?;
        let (value, width) = match base {
            IpAddr::V4(base) => (u128::from(base.to_bits()), 32),
            IpAddr::V6(base) => (base.to_bits(), 128),
        };
        if prefix > width {
            return Err(CidrError::Syntax);
        }
        let host = if prefix == 0 {
            value
        } else {
            // Shifting by the prefix drops it; what is left are the host bits.
            (value << (128 - width)) << (prefix - 1) << 1
        };
        if host != 0 {
            return Err(CidrError::HostBits);
        }
        Ok(match base {
            // A block of IPv4-mapped addresses is a block of IPv4 addresses.
            IpAddr::V6(v6) if prefix >= 96 && v6.to_ipv4_mapped().is_some() => Self {
                base: base.to_canonical(),
                prefix: prefix - 96,
            },
            _ => Self { base, prefix },
        })
    }
}

/// Whether `difference`, a number of `width` bits, is zero in its first `prefix` bits.
const fn after_prefix(difference: u128, prefix: u8, width: u8) -> bool {
    // Two shifts, because one of the full width is an overflow.
    prefix == 0 || difference >> (width - prefix) == 0
}

/// Why nothing is dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialRefused {
    /// The name has no address.
    #[error("the host of base_url has no address")]
    NoAnswer,
    /// An address that serves machine identities.
    #[error("the host of base_url resolves to the metadata address {0}, which is never dialled")]
    Metadata(IpAddr),
    /// An address inside, without leave.
    #[error("the host of base_url resolves to {0}, which is not a global address; list its block in allow_private")]
    NotGlobal(IpAddr),
    /// `localhost` is somewhere else.
    #[error("localhost resolves to {0}, which is not a loopback address")]
    NotLoopback(IpAddr),
    /// Not the literal of the base URL.
    #[error("{0} is not the address written in base_url")]
    NotAsWritten(IpAddr),
}

/// Whether one address may be dialled for a host.
pub fn may_dial(host: &Host, address: IpAddr, allow_private: &[Cidr]) -> bool {
    check_answer(host, address, allow_private).is_ok()
}

/// Checks everything a host resolves to; a literal resolves to itself.
///
/// # Errors
/// When there is no answer, and when any one of them may not be dialled.
pub fn check_answers(host: &Host, answers: &[IpAddr], allow_private: &[Cidr]) -> Result<(), DialRefused> {
    if answers.is_empty() {
        return Err(DialRefused::NoAnswer);
    }
    answers
        .iter()
        .try_for_each(|address| check_answer(host, *address, allow_private))
}

fn check_answer(host: &Host, address: IpAddr, allow_private: &[Cidr]) -> Result<(), DialRefused> {
    if is_metadata(address) {
        return Err(DialRefused::Metadata(address));
    }
    match host {
        Host::Address(written) if *written == address => Ok(()),
        Host::Address(_) => Err(DialRefused::NotAsWritten(address)),
        Host::Name(_) if host.is_localhost() => {
            if is_loopback(address) {
                Ok(())
            } else {
                Err(DialRefused::NotLoopback(address))
            }
        }
        Host::Name(_) if is_global(address) || allow_private.iter().any(|block| block.contains(address)) => Ok(()),
        Host::Name(_) => Err(DialRefused::NotGlobal(address)),
    }
}

/// The IPv4 address behind an IPv4-mapped one, or behind the well-known NAT64 prefix: that is where a packet ends up.
fn plain(address: IpAddr) -> IpAddr {
    if let IpAddr::V6(v6) = address
        && let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = v6.segments()
    {
        return Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into();
    }
    address.to_canonical()
}

/// Loopback, its IPv4-mapped form included.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// An address where a cloud hands out identities to whoever asks, in every form in which IPv6 carries an IPv4 address: a
/// host may have a translator or a tunnel for any of them.
pub(crate) fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_metadata_v4(v4),
        IpAddr::V6(v6) => {
            v6 == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254) || carried(v6).into_iter().any(is_metadata_v4)
        }
    }
}

fn is_metadata_v4(address: Ipv4Addr) -> bool {
    matches!(
        address.octets(),
        [169, 254, 169, 254] | [100, 100, 100, 200] | [168, 63, 129, 16]
    )
}

/// Every IPv4 address an IPv6 address may carry: in its last 32 bits (mapped, compatible, translated, NAT64, ISATAP), there
/// inverted (Teredo), and in the 32 bits after the prefix of 6to4.
fn carried(address: Ipv6Addr) -> [Ipv4Addr; 3] {
    let [first, high6, low6, .., high, low] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    // Outside their prefixes the bits mean nothing; no usable address is lost with the few that look like these.
    let of_6to4 = if first == 0x2002 { v4(high6, low6) } else { v4(0, 0) };
    let of_teredo = if first == 0x2001 && high6 == 0 {
        v4(!high, !low)
    } else {
        v4(0, 0)
    };
    [v4(high, low), of_teredo, of_6to4]
}

/// An address of the public internet, by the registries of special-purpose addresses.
fn is_global(address: IpAddr) -> bool {
    match plain(address) {
        IpAddr::V4(v4) => !matches!(
            v4.octets(),
            [0 | 10 | 127, ..]
                | [100, 64..=127, ..]
                | [169, 254, ..]
                | [172, 16..=31, ..]
                | [192, 0, 0 | 2, _]
                | [192, 88, 99, _]
                | [192, 168, ..]
                | [198, 18..=19, ..]
                | [198, 51, 100, _]
                | [203, 0, 113, _]
                | [224..=255, ..]
        ),
        // 2000::/3 without protocol assignments (Teredo among them), documentation and 6to4.
        IpAddr::V6(v6) => match v6.segments() {
            [0x2001, second, ..] => second >= 0x200 && second != 0xdb8,
            [0x2002, ..] => false,
            [0x3fff, second, ..] => second >= 0x1000,
            [first, ..] => (0x2000..0x4000).contains(&first),
        },
    }
}
