//! A worker's clients that wait: for keys to be filled (looking at these again, replies, time-outs, and their end), and for
//! messages.

use super::worker::Worker;
use crate::command::{Env, blocking};
use crate::pause::Paused;
use crate::pubsub::Parcel;
use crate::room::{self, Lack};
use crate::store::Session;
use crate::tracking::Tracking;
use crate::waiting::{Delivery, Doom};
use perdura::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Why a waiting client's connection ends.
const CLOSED: &str = "the client closed it";
const FAILED: &str = "the pool's medium failed";
/// How soon keys are looked at again that are being written.
const SOON: Duration = Duration::from_millis(1);

/// Serves, in a transaction of its own, clients whose keys are to be looked at again; returns its ticket. Keys that another
/// transaction is writing are left for later.
pub(crate) fn recheck<S: Session>(
    session: &mut S,
    env: Env<'_>,
) -> Result<Option<S::Ticket>, Error> {
    if !env.waits.has_recheck() || env.server.runs.has_long_beside(env.worker) {
        return Ok(None);
    }
    let _writing = env.server.runs.of(env.worker).write();
    if env.server.pause.now() != Paused::None {
        return Ok(None);
    }
    let names = env.waits.take_recheck(|(db, key)| env.server.watch.is_settled(*db, key));
    if names.is_empty() {
        return Ok(None);
    }
    // How many are served.
    let mut most = usize::MAX;
    let (mut env, mut tries, mut last) = (env, 0, None);
    loop {
        let done = session.write(&mut |tx| {
            env.begin_writing(tx)?;
            names.iter().for_each(|(db, key)| env.waits.note(*db, key));
            blocking::serve(tx, env, Some(most))?;
            env.tally.end();
            env.end_writing(tx)
        });
        env.end(&done);
        match done {
            Ok(ticket) => return Ok(last.max(Some(ticket))),
            Err(error @ Error::Io(_)) => return Err(error),
            Err(error @ (Error::Full { .. } | Error::NoSpace { .. })) if !env.last_resort => {
                env.last_resort = !room::make(session, env, tries, &Lack::of(&error), &mut last)?;
                tries += 1;
            }
            Err(Error::TooLarge { .. }) if most > 1 => most = 1,
            Err(Error::TooLarge { needed, available }) => {
                env.waits.give_up(&env.server.waiting, Doom::TooLarge { needed, available });
                return Ok(last);
            }
            // Damage: clients that ask for the key are told. It is looked at again when it is written.
            Err(_) => return Ok(last),
        }
    }
}

impl<S: Session> Worker<S> {
    /// How long to wait for an event, at most `longest`.
    pub(super) fn patience(&self, longest: Duration) -> Duration {
        let longest = if self.notes.waits.has_recheck() { longest.min(SOON) } else { longest };
        let longest = if self.holds() { longest.min(self.server.pause.left()) } else { longest };
        match self.timeouts.first() {
            Some((until, ..)) => longest.min(until.saturating_duration_since(Instant::now())),
            None => longest,
        }
    }

    /// Sends the replies to clients that the batch has served; each client's thread sends its own.
    pub(super) fn deliver(&mut self, durable: bool) {
        for (to, until) in self.notes.waits.take_new() {
            self.timeouts.extend(until.map(|until| (until, to.id, to.slot)));
            // It may have hung up before it was on the list.
            self.give_up(to.slot);
        }
        // Of what is not durable nobody is told: the server has failed, and its clients are disconnected.
        for delivery in self.notes.waits.take_deliveries().into_iter().filter(|_| durable) {
            match delivery.to.worker == self.index {
                true => self.hand_over(&delivery),
                false => self.inboxes[delivery.to.worker].deliver(delivery),
            }
        }
        match durable {
            true => {
                self.publish();
                self.send_effects();
            }
            false => {
                drop(self.notes.posts.take_ready());
                drop(self.notes.effects.take_ready());
                drop(self.notes.tracked.take_ready());
            }
        }
    }

    /// Sends the effects of durable transactions to replicas.
    pub(super) fn send_effects(&self) {
        if self.notes.effects.are_ready() {
            self.server.replication.send(&self.server, self.notes.effects.take_ready());
        }
    }

    /// Sends the messages whose transactions are durable; each client's thread sends its own.
    pub(super) fn publish(&mut self) {
        if !self.notes.posts.are_ready() && !self.notes.tracked.are_ready() {
            return;
        }
        // What other threads have handed over comes before these.
        self.take_posted();
        self.hand_over_all();
        let posts = self.server.pubsub.address(self.notes.posts.take_ready());
        self.hand_out(posts);
        let invalid = Tracking::address(&self.server, self.notes.tracked.take_ready());
        self.hand_out(invalid);
    }

    /// Hands messages to the threads of their clients.
    fn hand_out(&mut self, parcels: BTreeMap<usize, Vec<Parcel>>) {
        for (worker, parcels) in parcels {
            if worker == self.index {
                self.hand_over_messages(&parcels);
                continue;
            }
            for refused in self.inboxes[worker].post(parcels) {
                self.server.kill(&refused.to.client);
            }
        }
    }

    /// Hands over replies to clients that have waited, then messages: some of these belong to the replies.
    fn hand_over_all(&mut self) {
        for delivery in std::mem::take(&mut self.arrived) {
            self.hand_over(&delivery);
        }
        let messages = std::mem::take(&mut self.messages);
        self.hand_over_messages(&messages);
    }

    /// Writes messages to clients of this thread. They may be gone, and others in their places.
    fn hand_over_messages(&mut self, parcels: &[Parcel]) {
        let mut touched = BTreeSet::new();
        for parcel in parcels {
            let slot = parcel.to.slot;
            let Some(connection) = self.slots.get(slot) else { continue };
            if connection.client.listing.id == parcel.to.client.id {
                connection.add_message(parcel);
                touched.insert(slot);
            }
        }
        for slot in touched {
            let Some(connection) = self.slots.get(slot) else { continue };
            connection.send(&self.server.stats[self.index]);
            if connection.is_over() {
                self.ready.retain(|&ready| ready != slot);
                self.drop_connection(slot);
            } else if connection.has_work() && !connection.listed {
                connection.listed = true;
                self.ready.push(slot);
            }
        }
    }

    /// Ends the wait of a client that has gone.
    pub(super) fn give_up(&mut self, slot: usize) {
        if let Some(connection) = self.slots.get(slot).filter(|one| one.waits_in_vain()) {
            self.server.waiting.end(connection.client.listing.id, Doom::Gone);
            connection.set_closing(CLOSED);
        }
    }

    /// Answers a client of this thread that has waited. It may be gone, and another in its place.
    fn hand_over(&mut self, delivery: &Delivery) {
        let slot = delivery.to.slot;
        let Some(connection) = self.slots.get(slot) else { return };
        let is_it = connection.client.listing.id == delivery.to.id;
        let Some(until) = connection.blocked.filter(|_| is_it) else { return };
        connection.unblock(&delivery.reply);
        if let Some(until) = until {
            self.timeouts.remove(&(until, delivery.to.id, slot));
        }
        // All that it is owed is durable: this is between two batches, or at the end of one.
        connection.send(&self.server.stats[self.index]);
        if !connection.listed {
            // Its next requests are looked for in the next batch.
            connection.listed = true;
            self.ready.push(slot);
        }
    }

    /// Between two batches: hands replies over, and ends the wait of clients whose time has come, or who are gone.
    pub(super) fn look_after_waiters(&mut self, now: Instant) {
        self.hand_over_all();
        while let Some(&(until, id, _)) = self.timeouts.first()
            && until <= now
        {
            self.timeouts.pop_first();
            // Not if it is being served, has been, or is gone.
            if let Some(waiter) = self.server.waiting.end(id, Doom::TimedOut) {
                let delivery = Delivery::of(&waiter, Doom::TimedOut);
                delivery.iter().for_each(|delivery| self.hand_over(delivery));
            }
        }
        if self.server.failed() && self.server.waiting.count() > 0 {
            self.close_those(|one| one.blocked.is_some().then_some(FAILED));
        }
    }
}
