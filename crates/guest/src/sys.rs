//! The system calls that no safe crate wraps, each behind a function that cannot be misused.
#![expect(
    unsafe_code,
    reason = "a call before main, signals, and what runs between fork and exec"
)]

use std::ffi::{OsStr, c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::Pid;

/// Where a child that asks for them finds its extra descriptors.
const EXTRA_FDS: [c_int; 2] = [3, 4];

/// Runs before Rust's own start-up, so that no instruction of ours runs while another process of this user may look in.
#[used]
#[unsafe(link_section = ".init_array")]
static BECOME_OPAQUE: extern "C" fn() = {
    extern "C" fn become_opaque() {
        // SAFETY: prctl with these constants reads and writes no memory of ours. A failure shows in `is_opaque`.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        }
    }
    become_opaque
};

/// True when no other process of this user can read this one's memory or descriptors.
pub(crate) fn is_opaque() -> bool {
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 }
}

/// Makes this process an ordinary one again; for roles that stand in for guest code.
pub(crate) fn become_ordinary() {
    // SAFETY: as above.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
}

/// True when this process was started with no variable at all.
pub(crate) fn environment_is_empty() -> bool {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library sets `environ` to null or to a list that ends with null; nothing here changes it.
    unsafe { environ.is_null() || (*environ).is_null() }
}

/// Replaces this process by itself without any variable. Returns only when that fails.
#[expect(clippy::disallowed_methods, reason = "PID 1 owns every process of its sandbox")]
pub(crate) fn start_over_without_environment() -> io::Error {
    let again = |path: &OsStr| Command::new(path).env_clear().exec();
    let first = again(OsStr::new("/proc/self/exe"));
    if first.kind() != io::ErrorKind::NotFound && first.kind() != io::ErrorKind::PermissionDenied {
        return first;
    }
    again(OsStr::new(plimsoll_guest_messages::limits::GUEST_BINARY))
}

/// Closes every descriptor but the first three, then keeps [`EXTRA_FDS`] taken, so that nothing that a spawn needs in
/// between can land there.
pub(crate) fn own_descriptors() -> io::Result<()> {
    // SAFETY: runs once at the start of main, before anything of ours has opened a descriptor.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) } == 0;
    if !closed {
        for fd in 3..4096 {
            // SAFETY: as above; a number that is not open is no harm.
            unsafe { libc::close(fd) };
        }
    }
    for fd in EXTRA_FDS {
        let null = fs_err::File::open("/dev/null")?;
        if null.as_raw_fd() != fd {
            return Err(io::Error::other("a standard descriptor is closed"));
        }
        let _kept_open = std::os::fd::IntoRawFd::into_raw_fd(null.into_parts().0);
    }
    Ok(())
}

/// Blocks SIGCHLD and answers a descriptor that becomes readable when a child ends.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before its first use and lives through all three calls; signalfd
    // answers a new descriptor or -1.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// SIGKILL to every process of this PID namespace but the caller.
///
/// # Panics
/// When the caller is not PID 1: elsewhere this would reach processes that are not ours.
pub(crate) fn kill_everything_else() {
    assert!(rustix::process::getpid().is_init(), "only PID 1 may end its namespace");
    // SAFETY: kill takes numbers only. No process left is no error of ours.
    unsafe {
        libc::kill(-1, libc::SIGKILL);
    }
}

/// A process to start.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a [&'a str],
    pub(crate) environment: &'a [(String, String)],
    pub(crate) directory: Option<&'a str>,
    /// Nothing to read where there is none.
    pub(crate) stdin: Option<OwnedFd>,
    /// Become descriptors 3 and 4.
    pub(crate) extra: &'a [BorrowedFd<'a>],
    /// No process of the guest lives that could look at the new one.
    pub(crate) unseen: bool,
    /// PID 1 will stop it. Then it stays in PID 1's session: gVisor wakes a stopped process group, and hangs up on it, with
    /// every member that exits, where no member has its parent in the session.
    pub(crate) to_be_stopped: bool,
}

/// Starts a process in a process group of its own, and in a session of its own unless it is to be stopped, with default
/// signals, first to go when memory runs out, and nothing of ours but what `launch` names. Returns after it has become the
/// program.
#[expect(clippy::disallowed_methods, reason = "PID 1 owns every process of its sandbox")]
pub(crate) fn spawn(launch: Launch<'_>, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<Pid> {
    let mut command = Command::new(launch.program);
    command.arg0(launch.name).args(launch.arguments).env_clear();
    command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = launch.directory {
        command.current_dir(directory);
    }
    command.stdin(launch.stdin.map_or_else(Stdio::null, Stdio::from));
    command.stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    let mut extra = [-1; EXTRA_FDS.len()];
    for (place, fd) in extra.iter_mut().zip(launch.extra) {
        *place = fd.as_raw_fd();
    }
    let (unseen, to_be_stopped) = (launch.unseen, launch.to_be_stopped);
    // SAFETY: between fork and exec this makes system calls on numbers and allocates nothing. `extra` stays open until
    // spawn returns, because `launch` borrows it, and is none of EXTRA_FDS: those are taken (own_descriptors).
    unsafe {
        command.pre_exec(move || {
            reset_signals();
            unblock_signals()?;
            if unseen {
                be_first_to_go();
            }
            let apart = if to_be_stopped {
                libc::setpgid(0, 0)
            } else {
                libc::setsid()
            };
            if apart == -1 {
                return Err(io::Error::last_os_error());
            }
            for (fd, place) in extra.into_iter().zip(EXTRA_FDS) {
                if fd != -1 && libc::dup2(fd, place) == -1 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let child = command.spawn()?;
    if !unseen {
        // Between fork and exec it was a copy of PID 1, and had to stay as secret. What it starts before this is written has
        // the score of PID 1, which is far smaller.
        let _gone = fs_err::write(format!("/proc/{}/oom_score_adj", child.id()), FIRST_TO_GO.to_bytes());
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the kernel answered no process id"))
}

/// The score of what an out-of-memory killer takes first.
const FIRST_TO_GO: &std::ffi::CStr = c"1000";

/// Default handlers for every signal, those that the C library keeps for itself included: whoever started PID 1 may have
/// left them ignored, and that would be inherited.
fn reset_signals() {
    // Handler, flags, restorer and mask as the kernel lays them out; all zero is the default handler.
    let default = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the kernel reads `default` and writes nothing; a signal that cannot be set is an error without effect.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8_usize,
            );
        }
    }
}

/// No signal blocked: PID 1 blocks SIGCHLD, and a shell that inherits that never hears of its children's ends.
fn unblock_signals() -> io::Result<()> {
    let mut none = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is initialised by sigemptyset before its only use, and the kernel keeps no pointer to it.
    let answer = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes this process, and all that come of it, the first that an out-of-memory killer takes. Only between fork and exec:
/// a later write by PID 1 would race with what the program does first.
///
/// A copy of PID 1 may not write its own score unless it is made readable to its user. For that moment it is as secret as
/// PID 1, so nobody may be there to look: no process of the guest may live.
fn be_first_to_go() {
    // SAFETY: the calls take numbers and pointers to constants that live for ever, and the kernel keeps none of them. Where
    // the score cannot be set the program runs with that of PID 1.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        let score = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if score >= 0 {
            libc::write(score, FIRST_TO_GO.as_ptr().cast(), FIRST_TO_GO.count_bytes());
            libc::close(score);
        }
    }
}

/// The kernel's log from its start, at most `room` bytes.
pub(crate) fn kernel_log(room: usize) -> io::Result<Vec<u8>> {
    const READ_ALL: c_int = 3;
    let mut buffer = vec![0; room];
    let length = c_int::try_from(buffer.len()).unwrap_or(c_int::MAX);
    // SAFETY: the kernel writes at most `length` bytes into a buffer of that size.
    let read = unsafe { libc::klogctl(READ_ALL, buffer.as_mut_ptr().cast(), length) };
    match usize::try_from(read) {
        Ok(read) => {
            buffer.truncate(read);
            Ok(buffer)
        }
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Forks; answers `None` in the child, which may only call [`become_idle`] or exit.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this program has one thread, so the child may go on like its parent.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Ignores every signal that can be ignored, beside that of ended children. Under gVisor a guest's signals do reach PID 1.
pub(crate) fn ignore_signals() {
    for signal in (1..=64).filter(|signal| *signal != libc::SIGCHLD) {
        // SAFETY: the call takes numbers only; ignoring a signal that cannot be ignored is an error without effect.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Whether the process limit refuses one more process now.
pub(crate) fn is_at_process_limit() -> bool {
    match fork() {
        Ok(Some(_)) => false,
        // SAFETY: the call takes a number and does not return; nothing of the parent's is run down or written out.
        Ok(None) => unsafe { libc::_exit(0) },
        Err(error) => error.raw_os_error() == Some(libc::EAGAIN),
    }
}

/// Sleeps until killed; of the catchable signals none ends it.
pub(crate) fn become_idle() -> ! {
    loop {
        // SAFETY: both calls take numbers only; ignoring a signal that cannot be ignored is an error without effect.
        unsafe {
            for signal in 1..=64 {
                libc::signal(signal, libc::SIG_IGN);
            }
            libc::pause();
        }
    }
}

/// Ends only the calling thread, which is the first one: the process lives on in its others.
pub(crate) fn leave_first_thread() -> ! {
    loop {
        // SAFETY: ends the calling thread without running anything of it; no other thread borrows from its stack.
        unsafe {
            libc::syscall(libc::SYS_exit, 0);
        }
    }
}

/// A timer that kills this process unless it is put off again and again.
///
/// Under gVisor a guest may stop PID 1, which then sees neither the end of its input nor its deadlines; a stopped process is
/// still killed by its own timer, and its sandbox with it. Linux does not let a namespace's first process be stopped or
/// killed from inside it, and ignores this timer too.
#[derive(Debug)]
pub(crate) struct OwnDeath(libc::timer_t);

impl OwnDeath {
    /// How long this process may be silent before it dies. Shorter, and a guest that burns every processor would be mistaken for
    /// one that stopped PID 1: silences of two seconds were measured on a loaded host.
    const AFTER: libc::timespec = libc::timespec { tv_sec: 5, tv_nsec: 0 };
    const NEVER: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };

    /// Sets the timer; `None` where the kernel has none left, which happens where timers are counted by user over a whole
    /// host (runc) and other sandboxes hold them all. There PID 1 cannot be stopped and needs none.
    pub(crate) fn set() -> Option<Self> {
        // SAFETY: all-zero bytes are a sigevent; the fields that count are set below.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: both pointers are to living values of the right type, and the kernel keeps neither.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } != 0 {
            return None;
        }
        let own_death = Self(timer);
        own_death.postpone().ok()?;
        Some(own_death)
    }

    /// Puts it off.
    pub(crate) fn postpone(&self) -> io::Result<()> {
        self.after(Self::AFTER)
    }

    /// Calls it off, until it is put off again.
    pub(crate) fn call_off(&self) -> io::Result<()> {
        self.after(Self::NEVER)
    }

    fn after(&self, time: libc::timespec) -> io::Result<()> {
        let once = libc::itimerspec {
            it_interval: Self::NEVER,
            it_value: time,
        };
        // SAFETY: the timer is this process's own and lives as long as it; the pointer is to a living value.
        if unsafe { libc::timer_settime(self.0, 0, &raw const once, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
