//! Operations that share a transaction: its body, which may run several times, and what follows from its end.

use super::{Op, Work, refuse, refuse_exec, wait};
use crate::command::{Command, Env, Failure};
use crate::net::budget::Budget;
use crate::net::busy::Lent;
use crate::net::fetch::AHEAD;
use crate::net::slots::Slots;
use crate::protocol::{Args, Reply};
use crate::replication::following::{Gate, LOADING, READONLY};
use crate::script::Busy;
use crate::stats::Called;
use crate::store::Session;
use perdura::{Error, Tx};

/// Attempts at a transaction that run its whole body; later ones run a part. An attempt that ends in a conflict is
/// cheap compared with one more commit, since conflicts are found before anything is waited for.
pub(super) const WHOLE_ATTEMPTS: u32 = 2;

/// Operations that share a transaction.
pub(in crate::net) struct Group<'g> {
    pub(in crate::net) ops: &'g mut [Op],
    /// How many operations the last attempt has done.
    pub(super) reached: usize,
    /// How often the transaction's body was run.
    pub(super) attempts: u32,
    /// Whether it may write.
    pub(super) writes: bool,
    pub(in crate::net) env: Env<'g>,
    pub(in crate::net) slots: &'g mut Slots,
    pub(super) budget: &'g mut Budget,
}

impl Group<'_> {
    pub(super) fn commit<S: Session>(&mut self, session: &mut S) -> Result<S::Ticket, Error> {
        let outcome = self.run(session);
        if outcome.is_ok() || self.env.careful || !self.env.tally.needs_care() {
            return outcome;
        }
        self.attempts = 0;
        self.run(session)
    }

    /// Bytes of values that the largest of its operations writes at least, as far as its arguments say.
    pub(super) fn least_bytes(&mut self) -> u64 {
        let stored = |(command, args): (&Command, Args<'_>)| match command.stores() {
            true => args.bytes() as u64,
            false => 0,
        };
        let mut most = 0;
        for op in &*self.ops {
            let Some(connection) = self.slots.get(op.slot) else { continue };
            most = most.max(match &op.work {
                Work::Request(request, command) => stored((command, connection.args(*request))),
                Work::Exec(exec) => exec.requests().map(stored).sum(),
            });
        }
        most
    }

    pub(super) fn run<S: Session>(&mut self, session: &mut S) -> Result<S::Ticket, Error> {
        self.writes = self.ops.iter().any(Op::writes);
        let outcome = if self.writes {
            self.env.stats.transactions.add(1);
            let _writing = self.env.server.runs.of(self.env.worker).write();
            let outcome = session.write(&mut |tx| self.body(tx));
            self.env.stats.conflicts.add(u64::from(self.attempts.saturating_sub(1)));
            outcome
        } else {
            self.env.stats.read_transactions.add(1);
            session.read(&mut |tx| self.body(tx))
        };
        self.env.end(&outcome);
        outcome
    }

    /// How many operations this attempt does: all of them at first, then half as many as the attempt before. (A
    /// transaction that only reads has no conflict a second time.)
    pub(super) fn attempted(&self) -> usize {
        let halvings = self.attempts.saturating_sub(WHOLE_ATTEMPTS).min(usize::BITS - 1);
        (self.ops.len() >> halvings).max(1)
    }

    fn body(&mut self, tx: &mut dyn Tx) -> Result<(), Error> {
        self.retract();
        match self.writes {
            true => self.env.begin_writing(tx)?,
            false => self.env.begin(),
        }
        self.admit()?;
        self.env.careful |= self.env.tally.needs_care();
        self.attempts += 1;
        let count = self.attempted();
        let mut ahead = self.begin_ahead(tx, count)?;
        // The first ones are fetched all at a time.
        for (step, most) in AHEAD.into_iter().enumerate() {
            for index in 1..count.min(most) {
                self.look_ahead(tx, &mut ahead, step, index)?;
            }
        }
        for index in 0..count {
            for (step, before) in AHEAD.into_iter().enumerate() {
                if index + before < count {
                    self.look_ahead(tx, &mut ahead, step, index + before)?;
                }
            }
            if index + 1 == count {
                self.env.tally.begin_last();
            }
            if !self.perform(tx, index)? {
                break;
            }
            self.reached = index + 1;
        }
        self.env.tally.end();
        if self.writes { self.env.end_writing(tx) } else { Ok(()) }
    }

    /// Whether the server has begun to follow a master, or shows no data any longer, since these operations were planned.
    fn admit(&self) -> Result<(), Error> {
        let gate = self.env.server.following.gate();
        if gate == Gate::Open {
            return Ok(());
        }
        let refusal = self.ops.iter().find_map(|op| match &op.work {
            Work::Request(_, command) => gate.refusal(command),
            Work::Exec(exec) => exec.commands().find_map(|command| gate.refusal(command)),
        });
        refusal.map_or(Ok(()), |text| Err(Error::Aborted(text.to_owned())))
    }

    /// Takes back all replies.
    pub(super) fn retract(&mut self) {
        for op in self.ops[..self.reached].iter_mut().rev() {
            if let Some(connection) = self.slots.get(op.slot) {
                connection.out.truncate(op.start);
            }
            (op.skipped, op.wish) = (false, None);
        }
        self.reached = 0;
    }

    /// Does one operation. Returns false if it needs a transaction of its own.
    fn perform(&mut self, tx: &mut dyn Tx, index: usize) -> Result<bool, Error> {
        let Group { ops, env, slots, budget, .. } = self;
        let op = &mut ops[index];
        if op.nests() {
            // If its script runs for long, the other connections are looked after meanwhile.
            let slot = op.slot;
            let Some(mut connection) = slots.lift(slot) else { return Ok(true) };
            let lent = Lent::lend(slots);
            let done = op.perform(tx, &mut connection, (env, budget), index > 0);
            drop(lent);
            slots.put_down(slot, connection);
            return done;
        }
        let Some(connection) = slots.get(op.slot) else { return Ok(true) };
        op.perform(tx, connection, (env, budget), index > 0)
    }

    /// Ends the operations after the commit. Returns their number.
    pub(super) fn finish(&mut self) -> usize {
        for op in &mut self.ops[..self.reached] {
            if let Some(connection) = self.slots.get(op.slot) {
                connection.skips |= op.skipped;
                match op.wish.take() {
                    Some(wish) => wait(self.env, connection, op, *wish),
                    None => connection.hush(op.start),
                }
            }
            let Work::Exec(exec) = &op.work else { continue };
            if !exec.aborted {
                continue;
            }
            // Its commands change neither the client nor the server.
            exec.own_pause.into_iter().for_each(|own| self.env.server.pause.end_own(own));
            if let Some(connection) = self.slots.get(op.slot) {
                connection.client.select(exec.db);
            }
        }
        self.reached
    }

    /// Answers all operations with the error that a script keeps the server busy.
    pub(super) fn refuse(&mut self, busy: Busy) {
        for op in &mut *self.ops {
            let Some(connection) = self.slots.get(op.slot) else { continue };
            match &op.work {
                Work::Request(..) => refuse(self.env.stats, connection, busy.text().into()),
                Work::Exec(exec) => {
                    refuse_exec(self.env.stats, connection, exec, busy);
                }
            }
        }
    }

    /// Answers the only operation with an error.
    pub(super) fn fail(&mut self, error: Error) {
        if let Error::Full { requested, .. } = error {
            self.env.server.warn_of_full(requested);
        }
        let failure = match error {
            Error::Aborted(text) if [LOADING, READONLY].contains(&text.as_str()) => {
                Failure::say(text)
            }
            error => Failure::Pool(error),
        };
        self.env.stats.error(failure.code());
        let op = &mut self.ops[0];
        if let Work::Request(_, command) = op.work {
            self.env.stats.called(Called { command, done: false, nanos: 0 }, 1);
        }
        if let Some(connection) = self.slots.get(op.slot) {
            let start = connection.out.len();
            let mut out = Reply::new(&mut connection.out, connection.client.protocol);
            failure.tell(&mut out);
            connection.hush(start);
        }
    }
}
