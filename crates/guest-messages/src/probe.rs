//! Facts about a sandbox, collected inside it by an ordinary guest process. The host judges them.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, decode, encode};

/// Everything a probe collects. Texts are what the kernel's files say; a file that cannot be read is an empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeFacts {
    /// `errno` of creating a file in `/`; 0 when it worked.
    pub root_write_errno: i32,
    /// `/proc/mounts`, in its order.
    pub mounts: Vec<MountFact>,
    /// `/proc/self/status`.
    pub status: StatusFacts,
    /// Network devices of `/proc/net/dev`, in its order.
    pub net_devices: Vec<String>,
    /// Lines of `/proc/net/route` without its heading, and those of `/proc/net/ipv6_route` that do not belong to `lo`.
    pub routes: Vec<String>,
    /// Values of `nameserver` in `/etc/resolv.conf`.
    pub resolvers: Vec<String>,
    /// The sandbox's own control group files.
    pub cgroup: CgroupFacts,
    /// Processors of `sched_getaffinity`.
    pub cpus: u32,
    /// Soft and hard limits of this process; `u64::MAX` is unlimited.
    pub limits: Vec<RlimitFact>,
    /// `/proc/version`.
    pub kernel_version: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// What the broker's socket answered, when asked for.
    pub host_socket: Option<SocketFact>,
    /// First line of the kernel's log, printable ASCII, at most 120 characters; empty when not asked for or not readable.
    pub banner: String,
}

impl ProbeFacts {
    /// The body of the frame that carries these facts.
    ///
    /// # Errors
    /// When a value cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        encode(self)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// When the bytes are not the facts of this version.
    pub fn decode(body: &[u8]) -> Result<Self, CodecError> {
        decode(body)
    }
}

/// One mount and whether it accepts bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountFact {
    /// Where it is mounted.
    pub target: String,
    /// Its file system type.
    pub fs_type: String,
    /// Its options, as the kernel lists them.
    pub options: Vec<String>,
    /// True when a byte could be written: into a new file of a directory, or by opening a file for append.
    pub accepts_bytes: bool,
    /// `errno` of the attempt; 0 when it worked.
    pub errno: i32,
}

/// Fields of `/proc/self/status`. `None` where the field is missing or not a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusFacts {
    /// Real, effective, saved and file system user.
    pub uids: Vec<u32>,
    /// Real, effective, saved and file system group.
    pub gids: Vec<u32>,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// `NoNewPrivs`.
    pub no_new_privs: Option<u32>,
    /// `Seccomp`.
    pub seccomp: Option<u32>,
    /// Inheritable, permitted, effective, bounding and ambient capabilities, each a mask.
    pub capabilities: Vec<u64>,
}

/// Control group files as texts without their newline; empty where absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CgroupFacts {
    /// 2 for the unified hierarchy, 1 for the older one, 0 when neither is visible.
    pub version: u32,
    /// `pids.max`.
    pub pids_max: String,
    /// `memory.max`, or `memory.limit_in_bytes`.
    pub memory_max: String,
    /// `memory.swap.max`, or `memory.memsw.limit_in_bytes`.
    pub swap_max: String,
    /// Quota and period: `cpu.max`, or `cpu.cfs_quota_us` and `cpu.cfs_period_us` with one space between.
    pub cpu_max: String,
    /// `cpuset.cpus.effective`, or `cpuset.cpus`.
    pub cpuset: String,
}

/// One resource limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RlimitFact {
    /// `core`, `nofile`, `nproc` or `msgqueue`.
    pub name: String,
    /// Soft limit.
    pub soft: u64,
    /// Hard limit.
    pub hard: u64,
}

/// What a Unix socket did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketFact {
    /// The first line it sent, at most 256 bytes, without its newline.
    pub answer: String,
    /// `errno` of connecting or reading; 0 when it answered.
    pub errno: i32,
}
