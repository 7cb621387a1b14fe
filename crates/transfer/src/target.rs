//! The pool that is made.

use crate::error::Error;
use perdura::draft::Draft;
use perdura::source::Source;
use perdura::{Domain, EngineKind, OpenError, Options, Pool};
use std::path::{Path, PathBuf};

/// How the new pool is to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Target {
    /// Its file.
    pub path: PathBuf,
    /// Bytes up to which it may grow.
    pub size: Option<u64>,
    /// Its engine.
    pub engine: Option<EngineKind>,
    /// Bytes of its log.
    pub log: Option<u64>,
    /// Its persistence domain, instead of the one that is detected.
    pub domain: Option<Domain>,
    /// Whether it may replace a file.
    pub force: bool,
    /// Permissions of the file that an import reads, if it is a file: the new pool's are never wider. A copy takes its
    /// source's.
    pub mode: Option<u32>,
}

impl Target {
    /// A new file at `path`, with everything else as in the source, or usual.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Target {
            path: path.as_ref().to_path_buf(),
            size: None,
            engine: None,
            log: None,
            domain: None,
            force: false,
            mode: None,
        }
    }

    /// With a size.
    #[must_use]
    pub fn size(mut self, size: Option<u64>) -> Self {
        self.size = size;
        self
    }

    /// With an engine.
    #[must_use]
    pub fn engine(mut self, engine: Option<EngineKind>) -> Self {
        self.engine = engine;
        self
    }

    /// With a log of so many bytes; a copy of all pages keeps the log's size.
    #[must_use]
    pub fn log(mut self, log: Option<u64>) -> Self {
        self.log = log;
        self
    }

    /// With a persistence domain, instead of the one that is detected.
    #[must_use]
    pub fn domain(mut self, domain: Option<Domain>) -> Self {
        self.domain = domain;
        self
    }

    /// In place of a file that is there.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Of a file with these permissions; those of a new pool, if there is none.
    pub(crate) fn draft(&self, source: Option<u32>) -> Result<Draft, Error> {
        let draft = Draft::start(&self.path, self.force)?;
        Ok(match source {
            Some(mode) => draft.of_mode(mode),
            None => draft,
        })
    }

    /// With data from a file of these permissions.
    #[must_use]
    pub fn mode(mut self, mode: Option<u32>) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn failed(&self, source: OpenError) -> Error {
        let path = self.path.clone();
        Error::Open { source: source.at(&path), path }
    }

    /// The new pool's engine: that of `source`, unless another one is asked for.
    pub(crate) fn engine_for(&self, source: &Source) -> Result<EngineKind, Error> {
        let name = &source.superblock().engine;
        self.engine.map_or_else(|| name.parse(), Ok).map_err(|_| {
            let unknown = OpenError::unknown_engine(name).at(source.path());
            Error::Open { path: source.path().to_owned(), source: unknown }
        })
    }

    /// Makes a pool and has it filled; it gets its name when that has gone well. Its file's permissions are `mode`, those
    /// of the file that its data is from.
    pub(crate) fn fill<R>(
        &self,
        options: &Options,
        mode: Option<u32>,
        fill: impl FnOnce(&Pool) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let draft = self.draft(mode)?;
        let mut options = options.clone().domain(self.domain).mode(draft.mode());
        if let Some(bytes) = self.log {
            options = options.log(bytes);
        }
        let pool = options.create(draft.temporary()).map_err(|source| self.failed(source))?;
        draft.note_made();
        let filled = fill(&pool);
        let closed = pool.close();
        let filled = filled?;
        closed?;
        draft.publish(None)?;
        Ok(filled)
    }
}
