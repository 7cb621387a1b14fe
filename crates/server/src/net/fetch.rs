//! Fetching ahead: a turn has what its next operations will read fetched while it performs those before, many places at a
//! time.

use super::turn::{Group, Op, Work};
use crate::keyspace::{Ahead, Database, Reached};
use perdura::{Error, Tx};

/// How many operations before its own an operation's key is announced, and what its entry leads to is.
pub(super) const AHEAD: [usize; 2] = [8, 4];

/// What is fetched ahead, for operations of one database.
#[derive(Default)]
pub(super) struct LookAhead {
    db: Option<Database>,
    /// What announces its keys, if it is large.
    keys: Option<Ahead>,
    /// How many operations in a row lead to nothing more than their key.
    vain: u32,
}

impl LookAhead {
    /// Whether this step is worth it.
    #[inline]
    fn does(&self, step: usize) -> bool {
        match step {
            0 => self.keys.is_some(),
            _ => self.db.is_some() && self.vain < VAIN,
        }
    }
}

/// After so many operations that lead to nothing more than their key, those that follow in the transaction are believed
/// not to either.
const VAIN: u32 = 2;

impl Group<'_> {
    /// Begins to fetch ahead: for operations on the first one's database.
    pub(super) fn begin_ahead(
        &mut self,
        tx: &mut dyn Tx,
        count: usize,
    ) -> Result<LookAhead, Error> {
        let first = self.ops.first().map_or(0, |op| op.slot);
        let Some(connection) = self.slots.get(first).filter(|_| count > 1) else {
            return Ok(LookAhead::default());
        };
        let db = Database::new(self.env.keyspace, connection.client.db);
        Ok(LookAhead { db: Some(db), keys: db.ahead(tx)?, vain: 0 })
    }

    /// Has fetched what an operation that is performed soon will read: then many places are fetched at a time, and not each
    /// of them waited for. First its key's bucket, then what the key's entry leads to.
    #[inline]
    pub(super) fn look_ahead(
        &mut self,
        tx: &mut dyn Tx,
        ahead: &mut LookAhead,
        step: usize,
        index: usize,
    ) -> Result<(), Error> {
        match ahead.does(step) {
            true => self.fetch(tx, ahead, step, index),
            false => Ok(()),
        }
    }

    #[inline(never)]
    fn fetch(
        &mut self,
        tx: &mut dyn Tx,
        ahead: &mut LookAhead,
        step: usize,
        index: usize,
    ) -> Result<(), Error> {
        let Op { slot, work: Work::Request(request, command), near, .. } = &mut self.ops[index]
        else {
            return Ok(());
        };
        if command.keys.0 <= 0 {
            return Ok(());
        }
        let Some(connection) = self.slots.get(*slot) else { return Ok(()) };
        let args = connection.args(*request);
        let (Some(db), Some(key)) = (ahead.db, args.get(command.keys.0 as usize)) else {
            return Ok(());
        };
        if db.index() != connection.client.db {
            return Ok(());
        }
        match step {
            0 => ahead.keys.as_ref().map_or(Ok(()), |keys| keys.announce(tx, key)),
            _ => {
                let member = command.member(&args);
                // In a small database everything else is near.
                if ahead.keys.is_none() && member.is_none() {
                    ahead.vain += 1;
                    return Ok(());
                }
                let (reached, hint) = db.reach(tx, key, member)?;
                *near = hint;
                ahead.vain = if reached == Reached::Nothing { ahead.vain + 1 } else { 0 };
                Ok(())
            }
        }
    }
}
