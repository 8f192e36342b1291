//! Which processors a container may use: the least busy ones, as many as its share needs.

use std::sync::Arc;

use parking_lot::Mutex;

/// Where the kernel says which processors the engine's containers can be given, best first.
const SOURCES: &[&str] = &[
    "/sys/fs/cgroup/cpuset.cpus.effective",
    "/sys/fs/cgroup/cpuset/cpuset.effective_cpus",
    "/sys/devices/system/cpu/online",
];

/// The processors there are, with how many containers hold each.
#[derive(Debug)]
pub struct Cores {
    ids: Vec<u32>,
    held: Mutex<Vec<u32>>,
}

/// Some processors, held for as long as a container lives.
#[derive(Debug)]
pub struct CoreLease {
    cores: Arc<Cores>,
    chosen: Vec<usize>,
}

impl Cores {
    /// The processors of this host, of which the engine says it has `count`; at least one.
    pub fn of_host(count: u32) -> Self {
        let lists = SOURCES.iter().filter_map(|path| fs_err::read_to_string(path).ok());
        let known = lists
            .filter_map(|text| parse_list(text.trim()))
            .find(|ids| !ids.is_empty());
        Self::new(known.unwrap_or_else(|| (0..count.max(1)).collect()))
    }

    /// These processors, none held.
    pub fn new(ids: Vec<u32>) -> Self {
        let held = Mutex::new(vec![0; ids.len()]);
        Self { ids, held }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// Takes as many as `cpus` rounds up to, at least one and at most all: those held least, lowest number first.
    pub fn take(self: &Arc<Self>, cpus: f64) -> CoreLease {
        let mut held = self.held.lock();
        let wanted = (1..self.ids.len()).find(|count| f64::from(u32::try_from(*count).unwrap_or(u32::MAX)) >= cpus);
        let mut order: Vec<usize> = (0..self.ids.len()).collect();
        order.sort_by_key(|at| held[*at]);
        order.truncate(wanted.unwrap_or(self.ids.len()));
        for at in &order {
            held[*at] += 1;
        }
        order.sort_unstable();
        CoreLease {
            cores: Arc::clone(self),
            chosen: order,
        }
    }
}

impl CoreLease {
    /// The processors in the form the engine takes: `0,3`.
    pub fn cpuset(&self) -> String {
        let ids: Vec<String> = self.chosen.iter().map(|at| self.cores.ids[*at].to_string()).collect();
        ids.join(",")
    }
}

impl Drop for CoreLease {
    fn drop(&mut self) {
        let mut held = self.cores.held.lock();
        for at in &self.chosen {
            held[*at] = held[*at].saturating_sub(1);
        }
    }
}

/// Reads the kernel's list form: `0-3,8,10-11`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    /// More than any kernel is built for; a wild range must not become a huge list.
    const MOST: u32 = 8192;
    let mut ids = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= MOST {
            return None;
        }
        ids.extend(first..=last);
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_up_to_whole_processors() {
        let cores = Arc::new(Cores::new(vec![0, 1, 2, 3]));
        for (cpus, cpuset) in [
            (0.5, "0"),
            (1.0, "0"),
            (1.5, "0,1"),
            (3.01, "0,1,2,3"),
            (9.0, "0,1,2,3"),
        ] {
            assert_eq!(cores.take(cpus).cpuset(), cpuset, "{cpus}");
        }
    }

    #[test]
    fn the_least_held_processors_are_taken_and_given_back() {
        let cores = Arc::new(Cores::new(vec![2, 5, 7]));
        let first = cores.take(1.0);
        let second = cores.take(1.0);
        let third = cores.take(2.0);
        assert_eq!(
            (first.cpuset(), second.cpuset(), third.cpuset()),
            ("2".to_owned(), "5".to_owned(), "2,7".to_owned())
        );
        drop(third);
        drop(first);
        assert_eq!(cores.take(2.0).cpuset(), "2,7");
        drop(second);
        assert_eq!(*cores.held.lock(), [0, 0, 0]);
    }

    #[test]
    fn the_kernels_lists_are_read_and_nonsense_is_not() {
        assert_eq!(parse_list("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_list(""), Some(vec![]));
        for text in ["3-1", "a", "0-", "0-4294967295"] {
            assert_eq!(parse_list(text), None, "{text}");
        }
        assert!(Cores::of_host(1).count() >= 1);
    }
}
