//! The medium of a pool's file, and the failures that data survives there: reported truthfully, whatever domain is asked for.

use super::flush::Flush;
use crate::{Domain, Survives};
use rustix::fs::{fstat, fstatfs, major, minor};
use rustix::io;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;

const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;

/// The medium of a pool's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backing {
    /// Persistent memory that loads and stores reach directly (a DAX file that maps with
    /// `MAP_SYNC`).
    Dax {
        /// Whether the platform flushes its caches on a power cut (eADR, CXL global persistent flush), according to the
        /// kernel.
        persistent_caches: bool,
    },
    /// A file system in ordinary memory (tmpfs, ramfs): emulates persistent memory.
    Memory,
    /// A file in the page cache, on a block device or a server.
    Block,
}

impl Backing {
    /// Asks the operating system about an open file. `dax` says whether it maps with `MAP_SYNC`.
    pub(super) fn detect(file: BorrowedFd<'_>, dax: bool) -> io::Result<Self> {
        if dax {
            let device = fstat(file)?.st_dev;
            let device = format!("{}:{}", major(device), minor(device));
            let persistent_caches = caches_persist(Path::new("/sys"), &device);
            return Ok(Backing::Dax { persistent_caches });
        }
        // The type of `f_type` differs between architectures.
        #[allow(clippy::unnecessary_cast)]
        let magic = fstatfs(file)?.f_type as u64 & 0xffff_ffff;
        Ok(match magic {
            TMPFS_MAGIC | RAMFS_MAGIC => Backing::Memory,
            _ => Backing::Block,
        })
    }

    /// The domain of a pool here, unless another is asked for.
    pub fn default_domain(self, flush: Flush) -> Domain {
        match self {
            Backing::Dax { persistent_caches: true } => Domain::Persistent,
            Backing::Block => Domain::Media,
            _ if flush == Flush::None => Domain::Process,
            Backing::Dax { persistent_caches: false } | Backing::Memory => Domain::Transient,
        }
    }

    /// The failures that an acknowledged transaction survives here when a pool is used under `domain`.
    pub fn survives(self, domain: Domain) -> Survives {
        match (self, domain) {
            (Backing::Dax { .. }, Domain::Transient | Domain::Media)
            | (Backing::Dax { persistent_caches: true }, Domain::Persistent)
            | (Backing::Block, Domain::Media) => Survives::Power,
            _ => Survives::Process,
        }
    }

    /// If `domain` cannot be provided here: the reason, and a remedy.
    pub(super) fn refuses(self, domain: Domain, flush: Flush) -> Option<&'static str> {
        let lines = matches!(domain, Domain::Transient | Domain::Persistent);
        (lines && flush == Flush::None).then_some(
            "no flush instruction is known for this processor architecture; \
             ask for 'media' or 'process'",
        )
    }

    /// Which failures acknowledged transactions survive, in words, when a pool is used under `domain`.
    pub fn describe(self, domain: Domain) -> String {
        let survives = self.survives(domain);
        let kept = |level| if survives >= level { "survives" } else { "may be lost" };
        let why = match (self, domain) {
            (Backing::Dax { .. }, Domain::Transient) => {
                "lines are written back to persistent memory"
            }
            (Backing::Dax { persistent_caches: true }, Domain::Persistent) => {
                "the platform flushes its caches on a power cut"
            }
            (Backing::Dax { persistent_caches: false }, Domain::Persistent) => {
                "the platform does not say that it flushes its caches on a power cut"
            }
            (Backing::Dax { .. } | Backing::Block, Domain::Media) => {
                "the file is synced; the device must honour a flush"
            }
            (Backing::Memory, _) => "the file is in ordinary memory; this emulates durability",
            (Backing::Block, Domain::Transient | Domain::Persistent) => {
                "stores stay in the page cache; this emulates persistent memory"
            }
            (_, Domain::Process) => "nothing is written back or synced",
        };
        format!(
            "{self}, domain {domain}. An acknowledged write after the process dies: {}; after a system crash: {}; after a \
             power failure: {} ({why})",
            kept(Survives::Process),
            kept(Survives::System),
            kept(Survives::Power),
        )
    }
}

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backing::Dax { persistent_caches: true } => "persistent memory with persistent caches",
            Backing::Dax { persistent_caches: false } => "persistent memory",
            Backing::Memory => "a file system in memory",
            Backing::Block => "a file on a block device",
        })
    }
}

/// Whether the region under block device `device` ("major:minor") has its caches in the persistence domain. If the
/// region is not found (a device mapper in between), whether all regions have.
fn caches_persist(sys: &Path, device: &str) -> bool {
    let says_so = |region: &Path| {
        std::fs::read_to_string(region.join("persistence_domain"))
            .ok()
            .map(|domain| domain.trim() == "cpu_cache")
    };
    if let Ok(device) = sys.join("dev/block").join(device).canonicalize()
        && let Some(answer) = device.ancestors().find_map(says_so)
    {
        return answer;
    }
    let Ok(devices) = sys.join("bus/nd/devices").read_dir() else { return false };
    let answers: Vec<bool> = devices
        .flatten()
        .filter(|device| device.file_name().to_string_lossy().starts_with("region"))
        .map(|region| says_so(&region.path()).unwrap_or(false))
        .collect();
    !answers.is_empty() && answers.into_iter().all(|persist| persist)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn survival_is_reported_truthfully() {
        use Domain::*;
        for (backing, domain, survives) in [
            (Backing::Dax { persistent_caches: false }, Transient, Survives::Power),
            (Backing::Dax { persistent_caches: false }, Persistent, Survives::Process),
            (Backing::Dax { persistent_caches: true }, Persistent, Survives::Power),
            (Backing::Dax { persistent_caches: true }, Process, Survives::Process),
            (Backing::Memory, Transient, Survives::Process),
            (Backing::Memory, Media, Survives::Process),
            (Backing::Block, Media, Survives::Power),
            (Backing::Block, Transient, Survives::Process),
            (Backing::Block, Persistent, Survives::Process),
            (Backing::Block, Process, Survives::Process),
        ] {
            assert_eq!(backing.survives(domain), survives, "{backing}, {domain}");
            let text = backing.describe(domain);
            assert_eq!(text.contains("a power failure: may be lost"), survives < Survives::Power);
        }
    }

    #[test]
    fn regions_are_read_from_sysfs() {
        let sys = tempfile::tempdir().expect("temporary directory");
        let region = |name: &str, domain: &str| {
            let path = sys.path().join("bus/nd/devices").join(name);
            fs::create_dir_all(&path).expect("directory");
            fs::write(path.join("persistence_domain"), domain).expect("file");
            path
        };
        assert!(!caches_persist(sys.path(), "259:0"), "no region at all");
        let first = region("region0", "cpu_cache\n");
        assert!(caches_persist(sys.path(), "259:0"));
        region("region1", "memory_controller\n");
        assert!(!caches_persist(sys.path(), "259:0"), "not every region");

        let block = first.join("namespace0.0/block/pmem0");
        fs::create_dir_all(&block).expect("directory");
        fs::create_dir_all(sys.path().join("dev/block")).expect("directory");
        let link = sys.path().join("dev/block/259:0");
        std::os::unix::fs::symlink(&block, link).expect("link");
        assert!(caches_persist(sys.path(), "259:0"), "the region under the device decides");
    }
}
