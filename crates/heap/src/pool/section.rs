//! Sections on a pool: see docs/atlas.md.

use super::Handle;
use super::tx::{AnyTx, OtherWay, PoolTx, Way};
use perdura_engine::{Result, Ticket};

impl Handle {
    /// Runs `body` as a section of a pool with the engine `atlas`, and returns when it is durable. A section takes locks
    /// of the program, by numbers, and stores in place at once; after a power cut it is there whole or not at all,
    /// together with what it has seen of other sections. It may nest locks, or release one while it holds another.
    ///
    /// Data belongs to one lock: only sections that hold it may access the data. Transactions do not exclude sections, and
    /// must not access that data while there may be any.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("a.pool");
    /// use perdura::{EngineKind, Options, Purpose, TxExt};
    ///
    /// let pool = Options::new().engine(EngineKind::Atlas).size(8 << 20).create(&path)?;
    /// let mut session = pool.session()?;
    /// let accounts = session.transaction(|tx| {
    ///     let mut account = || Ok::<_, perdura::Error>(tx.new_object(Purpose::General, 100_u64)?.at());
    ///     Ok([account()?, account()?])
    /// })?;
    /// // Each account has a lock: its offset.
    /// session.section(|tx| {
    ///     let [from, to] = accounts;
    ///     let one = tx.lock(from)?;
    ///     let other = tx.lock(to)?;
    ///     let [left, there] = [tx.read_word(from)?, tx.read_word(to)?];
    ///     tx.write_word(from, left - 30)?;
    ///     tx.write_word(to, there + 30)?;
    ///     tx.unlock(other)?;
    ///     tx.unlock(one)
    /// })?;
    /// assert_eq!(session.read(|tx| tx.read_word(accounts[1]))?, 130);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If `body` fails, what it has stored is undone, unless it has released a lock before: see
    /// [`Tx::unlock`](crate::Tx::unlock).
    ///
    /// # Errors
    /// The error of `body`, or why the section could not be made durable; `NoSections` under other engines; `Invalid` in
    /// a pool with checksums of all pages; `Nested` if the calling thread is inside a transaction or a section on the pool.
    pub fn section<R>(&mut self, body: impl FnOnce(&mut PoolTx<'_>) -> Result<R>) -> Result<R> {
        self.run_section(true, body).map(|(result, _)| result)
    }

    /// As [`section`](Self::section), but returns when the section is over, with a ticket for its durability. Until the
    /// ticket is [durable](Self::wait), a power cut may undo the section; it is durable a few milliseconds later even if
    /// nobody waits.
    ///
    /// # Errors
    /// As [`section`](Self::section).
    pub fn submit_section<R>(
        &mut self,
        body: impl FnOnce(&mut PoolTx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.run_section(false, body)
    }

    fn run_section<R>(
        &mut self,
        is_awaited: bool,
        body: impl FnOnce(&mut PoolTx<'_>) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.check_closed()?;
        let (mut body, mut result) = (Some(body), None);
        let ticket = self.session.erased().section(is_awaited, &mut |tx| {
            let body = body.take().expect("a section runs once");
            result = Some(body(&mut PoolTx::new(Way::Else(OtherWay::Any(AnyTx(tx)))))?);
            Ok(())
        })?;
        Ok((result.expect("a section that is over has run"), ticket))
    }
}
