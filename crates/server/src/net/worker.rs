//! A worker: one thread with its own poll, its own connections and its own session of the pool.
//! The first one also accepts connections, and runs the cron.
//!
//! A batch is made durable and answered together: one turn, or, where syncs take long, several, so that clients
//! that were answered at the end of the last sync are in the next one, too (see [`Gather`]).

use super::budget::Budget;
use super::busy::{self, Desk};
use super::connection::Connection;
use super::door::{Door, Guest};
use super::slots::Slots;
use super::socket::Socket;
use super::spin::Spin;
use super::turn::Turn;
use super::waiters::recheck;
use crate::client::{Client, Home};
use crate::command::{Env, Notes};
use crate::cron::Cron;
use crate::keyspace;
use crate::listing::Listing;
use crate::pubsub::{Mailbox, Parcel};
use crate::replication::Replication;
use crate::server::Server;
use crate::stats::Stats;
use crate::store::Session;
use crate::tracking;
use crate::waiting::{Delivery, Doom};
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use perdura::{Error, Gather};
use rustix::net::sockopt;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Why a client's connection ends that CLIENT KILL has named.
pub(super) const KILLED: &str = "CLIENT KILL ended it";
const WAKE: Token = Token(0);
/// Tokens of sockets that listen: this one and those that follow it.
const DOOR: usize = 1;
/// Sockets that listen.
pub(crate) const DOORS_MAX: usize = 64;
/// What a client from elsewhere is told while nobody needs a password: as Redis does.
const PROTECTED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set \
    for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from \
    external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the \
    command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is \
    running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this \
    change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and \
    setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for \
    testing, restart it with the '--protected-mode no' option. 4) Setup a an authentication password for the default user. \
    NOTE: You only need to do one of the above things in order for the server to start accepting connections from the \
    outside.\r\n";
/// Connections' tokens are their numbers and this.
const FIRST: usize = DOOR + DOORS_MAX;
/// How often the cron runs, and how soon an end is noticed.
const TICK: Duration = Duration::from_millis(100);
/// Connections that had nothing to do from one such time to the next give back their buffers.
const IDLE: Duration = Duration::from_secs(1);
/// Keys that are forgotten at once that clients track, after the option for their number has become smaller.
const TRIMMED: usize = 10_000;
/// Connections accepted in one turn.
const MOST_ACCEPTED: usize = 256;

/// Connections on their way to a worker.
pub(crate) struct Inbox {
    streams: Mutex<Vec<(Socket, Arc<Listing>)>>,
    deliveries: Mutex<Vec<Delivery>>,
    /// Messages for clients that listen.
    mailbox: Mailbox,
    waker: Waker,
}

impl Inbox {
    /// Takes the connections that are on their way.
    pub(super) fn take_streams(&self) -> Vec<(Socket, Arc<Listing>)> {
        std::mem::take(&mut *self.streams.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, stream: Socket, listing: Arc<Listing>) -> io::Result<()> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push((stream, listing));
        self.waker.wake()
    }

    /// Hands over a reply for a client that has waited.
    pub(crate) fn deliver(&self, delivery: Delivery) {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
        self.wake();
    }

    /// Hands over messages for clients that listen. Returns those for which there is no room.
    pub(crate) fn post(&self, parcels: Vec<Parcel>) -> Vec<Parcel> {
        let refused = self.mailbox.put(parcels);
        self.wake();
        refused
    }

    /// Takes the messages that others have handed over.
    pub(super) fn take_messages(&self) -> Vec<Parcel> {
        self.mailbox.take()
    }

    /// Makes the worker look around.
    pub(crate) fn wake(&self) {
        // A poll that cannot be woken still looks around at every tick.
        let _ = self.waker.wake();
    }
}

/// One thread's part of the server.
pub(crate) struct Worker<S> {
    pub(super) index: usize,
    pub(super) server: Arc<Server>,
    session: S,
    keyspace: u64,
    poll: Poll,
    pub(super) inboxes: Arc<[Arc<Inbox>]>,
    doors: Vec<Door>,
    pub(super) slots: Slots,
    turn: Turn,
    events: Events,
    /// Connections with something to do.
    pub(super) ready: Vec<usize>,
    /// Those of the batch, to be answered when it is durable.
    unanswered: Vec<usize>,
    /// The batch's number.
    batch: u64,
    /// Connections with requests in it, and how many of those were in the last one as well.
    asked: usize,
    again: usize,
    gather: Gather,
    /// The worker that gets the next connection.
    next: usize,
    /// Connections are waiting that could not be accepted.
    crowded: bool,
    cron: Cron,
    pub(super) notes: Notes,
    /// Replies of other threads' to clients that wait.
    pub(super) arrived: Vec<Delivery>,
    /// Messages of all threads for this one's clients.
    pub(super) messages: Vec<Parcel>,
    /// When clients do not want to wait any longer.
    pub(super) timeouts: BTreeSet<(Instant, u64, usize)>,
    turns: u64,
    /// When the last batch began.
    began: Instant,
    /// Requests of the last turn from one look at the clock to the next.
    stride: u32,
    /// How long the last turn waited for its durability.
    waited: Duration,
    /// When idle connections last gave back their buffers.
    rested: Instant,
    /// Kills of clients whose connections are closed.
    kills: u64,
    /// Changes of users that its clients know of.
    users: u64,
    /// Pauses that have ended for its clients.
    pauses: u64,
}

impl<S: Session> Worker<S> {
    /// A poll, and the inbox that wakes it.
    pub(crate) fn prepare() -> io::Result<(Poll, Arc<Inbox>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        Ok((
            poll,
            Arc::new(Inbox {
                streams: Mutex::default(),
                deliveries: Mutex::default(),
                mailbox: Mailbox::default(),
                waker,
            }),
        ))
    }

    pub(crate) fn new(
        index: usize,
        server: Arc<Server>,
        session: S,
        keyspace: u64,
        poll: Poll,
        inboxes: Arc<[Arc<Inbox>]>,
    ) -> Self {
        Worker {
            index,
            server,
            session,
            keyspace,
            poll,
            inboxes,
            doors: Vec::new(),
            slots: Slots::default(),
            turn: Turn::default(),
            events: Events::with_capacity(1024),
            ready: Vec::new(),
            unanswered: Vec::new(),
            batch: 1,
            asked: 0,
            again: 0,
            gather: Gather::default(),
            next: 0,
            crowded: false,
            cron: Cron::default(),
            notes: Notes::default(),
            arrived: Vec::new(),
            messages: Vec::new(),
            timeouts: BTreeSet::new(),
            turns: 0,
            began: Instant::now(),
            stride: 1,
            waited: Duration::ZERO,
            rested: Instant::now(),
            kills: 0,
            users: 0,
            pauses: 0,
        }
    }

    /// Makes this the worker that accepts connections.
    pub(crate) fn listen(&mut self, mut doors: Vec<Door>) -> io::Result<()> {
        for (door, token) in doors.iter_mut().zip(DOOR..FIRST) {
            self.poll.registry().register(door.source(), Token(token), Interest::READABLE)?;
        }
        self.doors = doors;
        Ok(())
    }

    /// Works until the server stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let _desk = self.open_desk()?;
        let mut spin = Spin::new(self.inboxes.len());
        let mut now = Instant::now();
        while !self.server.stopping() {
            self.stats().looks.add(1);
            let idle = self.ready.is_empty() && !self.turn.is_alone() && !self.cron.is_busy();
            let timeout = if idle && !spin.again(now) { TICK } else { Duration::ZERO };
            self.look(self.patience(timeout))?;
            let has_work = !self.ready.is_empty() || self.turn.is_alone();
            let works = has_work || self.notes.waits.has_recheck();
            if works {
                self.began = Instant::now();
                self.do_batch()?;
            }
            now = Instant::now();
            if works {
                spin.worked(self.began, now);
            }
            self.look_after_waiters(now);
            self.rest(now);
            self.close_killed();
            self.end_pause();
            if std::mem::take(&mut self.crowded) {
                (0..self.doors.len()).for_each(|door| self.accept(door));
            }
            if self.index == 0 {
                self.run_cron(now);
            }
        }
        for connection in self.slots.drain() {
            connection.close(&self.server);
        }
        Ok(())
    }

    /// Handles the events that have happened, or waits for one.
    fn look(&mut self, timeout: Duration) -> io::Result<()> {
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        let polled = self.poll.poll(&mut events, Some(timeout));
        if polled.is_ok() {
            for event in &events {
                match event.token() {
                    WAKE => self.collect(),
                    Token(token @ DOOR..FIRST) => self.accept(token - DOOR),
                    Token(token) => {
                        let readable = event.is_readable().then_some(event.is_read_closed());
                        let writable = event.is_writable() || event.is_write_closed();
                        self.notice(token - FIRST, readable, writable);
                    }
                }
            }
        }
        self.events = events;
        polled.or_else(|error| match error.kind() {
            ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        })
    }

    fn stats(&self) -> &Stats {
        &self.server.stats[self.index]
    }

    /// Something happened to a connection: it may be read from, perhaps to its end, or written to.
    fn notice(&mut self, slot: usize, readable: Option<bool>, writable: bool) {
        let Some(connection) = self.slots.get(slot) else { return };
        if let Some(to_end) = readable {
            connection.set_readable(to_end);
        }
        if writable {
            connection.set_writable();
        }
        if !connection.listed {
            connection.listed = true;
            self.ready.push(slot);
        }
    }

    /// Does the requests of the ready connections, makes them durable, and answers.
    ///
    /// Never inlined: `tests/all/counts.rs` counts what is done in here, by this name.
    #[inline(never)]
    fn do_batch(&mut self) -> io::Result<()> {
        if self.server.failed() {
            // Not even reads: they might see data that is not durable.
            self.receive(Instant::now());
            self.answer(false);
            return Ok(());
        }
        let mut done = self.take_turn();
        let durable = match done {
            Ok(Some(ticket)) if self.session.is_durable(ticket) => {
                // Of what was only read, mostly: this does not take long, and is not measured.
                self.waited = Duration::ZERO;
                self.gather.ended(Duration::ZERO, self.asked);
                self.session.wait(ticket)
            }
            Ok(Some(ticket)) => {
                done = self.gather(ticket)?;
                done.and_then(|ticket| ticket.map_or(Ok(()), |ticket| self.wait(ticket)))
            }
            done => done.map(drop),
        };
        if let Err(error) = &durable {
            self.server.fail(error);
        }
        self.answer(durable.is_ok());
        Ok(())
    }

    /// Takes turns for connections that were answered after the last sync and have asked again, before this one begins.
    fn gather(&mut self, ticket: S::Ticket) -> io::Result<Result<Option<S::Ticket>, Error>> {
        let (mut last, before) = (ticket, self.again);
        let Some(until) = self.gather.until(before) else { return Ok(Ok(Some(last))) };
        let ends = |server: &Server| server.stopping() || server.failed();
        while self.again < self.gather.expected() && !ends(&self.server) {
            if self.turn.is_alone() {
                // A turn with a script that runs for long is none of those.
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.look(left)?;
            match self.take_turn() {
                Ok(ticket) => last = ticket.map_or(last, |ticket| last.max(ticket)),
                Err(error) => return Ok(Err(error)),
            }
        }
        self.gather.brought(self.again > before);
        Ok(Ok(Some(last)))
    }

    fn wait(&mut self, ticket: S::Ticket) -> Result<(), Error> {
        self.stats().waits.add(1);
        let waits = Instant::now();
        let waited = self.session.wait(ticket);
        self.waited = waits.elapsed();
        self.server.note_latency("aof-fsync-always", self.waited);
        let nanos = u64::try_from(self.waited.as_nanos()).unwrap_or(u64::MAX);
        self.stats().waited.add(nanos);
        self.gather.ended(self.waited, self.asked);
        waited
    }

    /// Reads from the ready connections, which are in the batch from here on; where these begin.
    fn receive(&mut self, now: Instant) -> usize {
        let first = self.unanswered.len();
        for index in 0..self.ready.len() {
            let slot = self.ready[index];
            self.give_up(slot);
            if let Some(connection) = self.slots.get(slot) {
                connection.receive(now, &self.server.stats[self.index]);
            }
        }
        self.unanswered.append(&mut self.ready);
        first
    }

    /// One more turn of the batch. The ticket is that of its last commit.
    fn take_turn(&mut self) -> Result<Option<S::Ticket>, Error> {
        let started = Instant::now();
        let first = self.receive(started);
        self.turns += 1;
        // After the requests were read: none that came after a change is done by what was before.
        let users = self.server.acl.version();
        if users != self.users {
            self.users = users;
            self.slots.all().for_each(|connection| connection.client.renew());
        }
        let (server, now) = (&*self.server, keyspace::now());
        let env = Env {
            cutoff: server.cutoff(now),
            ..self.notes.env(
                server,
                self.index,
                &server.stats[self.index],
                self.keyspace,
                now,
                self.turns,
            )
        };
        let mut budget = Budget::new(started, self.waited, self.stride);
        let ready = &self.unanswered[first..];
        let done = self.turn.run(&mut self.session, env, &mut self.slots, ready, &mut budget);
        if busy::has_served() {
            list_unlisted(&mut self.slots, &mut self.ready);
        }
        let done = done.and_then(|last| Ok(last.max(recheck(&mut self.session, env)?)));
        self.stride = budget.stride();
        for &slot in ready {
            if let Some(connection) = self.slots.get(slot).filter(|connection| connection.taken > 0)
            {
                self.asked += 1;
                self.again += usize::from(connection.batch + 1 == self.batch);
                connection.batch = self.batch;
            }
        }
        done
    }

    /// Sends the batch's replies, and lists the connections that have more to do.
    fn answer(&mut self, durable: bool) {
        self.batch += 1;
        (self.asked, self.again) = (0, 0);
        self.deliver(durable);
        let mut ready = std::mem::take(&mut self.unanswered);
        ready.retain(|&slot| {
            let Some(connection) = self.slots.get(slot) else { return false };
            if !durable {
                connection.retract();
            }
            connection.send(&self.server.stats[self.index]);
            if connection.is_over() {
                self.drop_connection(slot);
                return false;
            }
            if connection.is_leaving() {
                self.let_go(slot);
                return false;
            }
            connection.listed = connection.has_work();
            connection.listed
        });
        self.ready.append(&mut ready);
        self.unanswered = ready;
    }

    /// Lets idle connections give back their buffers, and publishes the session's counters.
    fn rest(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.rested);
        if since >= IDLE {
            self.slots.all().for_each(|connection| connection.rest(now));
            if self.server.tls.is_some() {
                self.close_those(|one| one.is_late(now).then_some("its handshake took too long"));
            }
            self.rested = now;
            self.server.publish(self.index, self.session.counters());
            // After a long turn, clients may have sent something that was not read yet.
            if let Some(timeout) = self.server.tuning.timeout().filter(|_| since < 2 * IDLE) {
                let is_over = |one: &Connection| !one.expects() && one.idle_for(now) > timeout;
                self.close_those(|one| is_over(one).then_some("it was idle for the timeout"));
            }
        }
    }

    /// Closes the connections of clients that CLIENT KILL has ended.
    fn close_killed(&mut self) {
        let kills = self.server.kills();
        if kills != self.kills {
            self.kills = kills;
            self.close_those(|one| one.client.listing.is_killed().then_some(KILLED));
        }
    }

    /// Whether connections may be held by a pause.
    pub(super) fn holds(&self) -> bool {
        self.turn.holds()
    }

    /// Lets the connections go on that a pause has held, if it has ended.
    fn end_pause(&mut self) {
        if !self.turn.holds() {
            return;
        }
        let _ = self.server.pause.now();
        let pauses = self.server.pause.changes();
        if pauses == self.pauses {
            return;
        }
        self.pauses = pauses;
        self.turn.hold_none();
        for (slot, connection) in self.slots.numbered() {
            if connection.go_on(&self.server) && !connection.listed {
                connection.listed = true;
                self.ready.push(slot);
            }
        }
    }

    /// Closes connections for a reason, between batches: none of them is owed an answer that is not sent yet.
    pub(super) fn close_those(&mut self, reason: impl Fn(&Connection) -> Option<&'static str>) {
        for (slot, reason) in self.slots.to_close(reason) {
            if let Some(connection) = self.slots.get(slot) {
                connection.set_closing(reason);
            }
            self.ready.retain(|&ready| ready != slot);
            self.drop_connection(slot);
        }
    }

    pub(super) fn drop_connection(&mut self, slot: usize) {
        if let Some(mut connection) = self.slots.remove(slot) {
            if let Some(until) = connection.blocked {
                let id = connection.client.listing.id;
                self.server.waiting.end(id, Doom::Gone);
                until.map(|until| self.timeouts.remove(&(until, id, slot)));
            }
            // A socket that cannot be deregistered is closed with the connection.
            let _ = self.poll.registry().deregister(connection.stream());
            connection.close(&self.server);
        }
    }

    /// Hands over a connection whose client has become a replica.
    fn let_go(&mut self, slot: usize) {
        let Some(mut connection) = self.slots.remove(slot) else { return };
        let deregistered = self.poll.registry().deregister(connection.stream());
        match (deregistered, connection.leave(&self.server)) {
            (Ok(()), Some((stream, listing, ask))) => {
                Replication::adopt(&self.server, stream, listing, ask);
            }
            (Err(error), Some((_, listing, _))) => {
                self.server.dismiss(listing.id, &error.to_string());
            }
            (_, None) => {}
        }
    }

    fn accept(&mut self, door: usize) {
        for _ in 0..MOST_ACCEPTED {
            let Some(listener) = self.doors.get(door) else { return };
            match listener.accept(self.server.tls.as_ref()) {
                Ok(guest) => self.welcome(guest),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // No descriptors, or no memory, are left: later there may be.
                Err(_) => return self.crowded = true,
            }
        }
        self.relisten(door);
    }

    /// Asks for a listener's readiness anew, after not all connections were accepted.
    fn relisten(&mut self, door: usize) {
        if let Some(listener) = self.doors.get_mut(door) {
            let (source, token) = (listener.source(), Token(DOOR + door));
            let _ = self.poll.registry().reregister(source, token, Interest::READABLE);
        }
    }

    fn welcome(&mut self, guest: Guest) {
        let Some((stream, listing)) = admit(&self.server, self.index, guest) else { return };
        let id = listing.id;
        let to = self.next % self.inboxes.len();
        self.next += 1;
        if to == self.index {
            self.adopt(stream, listing);
        } else if self.inboxes[to].put(stream, listing).is_err() {
            self.server.dismiss(id, "no thread could take it");
        }
    }

    fn collect(&mut self) {
        let inbox = Arc::clone(&self.inboxes[self.index]);
        self.take_posted();
        for (stream, listing) in inbox.take_streams() {
            self.adopt(stream, listing);
        }
    }

    /// Takes what other threads have handed over for clients. A message that belongs to a reply comes after it: so messages
    /// are taken first.
    pub(super) fn take_posted(&mut self) {
        let inbox = &self.inboxes[self.index];
        self.messages.append(&mut inbox.take_messages());
        self.arrived.append(&mut inbox.deliveries.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn adopt(&mut self, stream: Socket, listing: Arc<Listing>) {
        let to = (&*self.server, self.index, self.poll.registry());
        if let Some(slot) = adopt(to, &mut self.slots, stream, listing) {
            self.notice(slot, Some(false), true);
        }
    }

    /// Lets this thread look after its connections while a script of its own runs for long.
    fn open_desk(&self) -> io::Result<busy::OpenDesk> {
        let doors = self.doors.iter().map(Door::again);
        Ok(busy::open(Desk {
            server: Arc::clone(&self.server),
            worker: self.index,
            inbox: Arc::clone(&self.inboxes[self.index]),
            registry: self.poll.registry().try_clone()?,
            doors: doors.collect::<io::Result<_>>()?,
        }))
    }

    fn run_cron(&mut self, now: Instant) {
        if let Some(notifier) = self.server.notifier.get() {
            notifier.beat(&self.server.stats);
        }
        let is_kept_out = self.server.runs.has_long_beside(self.index);
        if self.server.failed() || is_kept_out || !self.cron.is_due(now) {
            return;
        }
        let server = Arc::clone(&self.server);
        server.look_at_disk();
        if self.index == 0 {
            server.look_at_memory();
        }
        server.replication.tick(&server, now);
        server.rates.sample(&server.stats, now);
        if server.tracking.is_used() {
            let limits = tracking::limits(&server);
            server.tell_trackers(server.tracking.trim(limits, TRIMMED));
        }
        let now = keyspace::now();
        let env = Env {
            cutoff: server.cutoff(now),
            ..self.notes.env(
                &server,
                self.index,
                &server.stats[self.index],
                self.keyspace,
                now,
                self.turns,
            )
        };
        let writing = server.runs.of(self.index).write();
        let done = self.cron.run(&mut self.session, env);
        drop(writing);
        match done {
            Err(error) => server.fail(&error),
            // Of keys that have expired clients hear when that is durable.
            Ok(Some(ticket)) if self.notes.are_ready() => match self.session.wait(ticket) {
                Ok(()) => {
                    self.publish();
                    self.send_effects();
                }
                Err(error) => server.fail(&error),
            },
            Ok(_) => {}
        }
    }
}

/// Gives a place to a client, if there is one for it.
pub(super) fn admit(
    server: &Server,
    worker: usize,
    guest: Guest,
) -> Option<(Socket, Arc<Listing>)> {
    let Guest { mut socket, peer, local } = guest;
    let stats = &server.stats[worker];
    let refusal = if !server.protects_from(&peer) {
        match server.admit() {
            true => None,
            false => {
                server.note_refused(&peer);
                Some("-ERR max number of clients reached\r\n")
            }
        }
    } else {
        Some(PROTECTED)
    };
    if let Some(text) = refusal {
        stats.rejected.add(1);
        if !matches!(socket, Socket::Tls(_)) {
            let _ = socket.write(text.as_bytes());
        }
        return None;
    }
    stats.connections.add(1);
    let keepalive = server.tuning.keepalive();
    if let (Some(idle), Socket::Tcp(stream)) = (keepalive, &socket) {
        // A peer that has died is noticed later, or by `timeout`, if it is refused.
        let _ = keep_alive(stream, idle);
    } else if let (Some(idle), Socket::Tls(tls)) = (keepalive, &mut socket) {
        let _ = keep_alive(tls.stream(), idle);
    }
    let listing = server.enlist(peer, local);
    Some((socket, listing))
}

/// Makes an admitted client one of a thread's own. Returns its number.
pub(super) fn adopt(
    (server, worker, registry): (&Server, usize, &Registry),
    slots: &mut Slots,
    mut stream: Socket,
    listing: Arc<Listing>,
) -> Option<usize> {
    let slot = slots.next();
    let interest = Interest::READABLE | Interest::WRITABLE;
    if registry.register(&mut stream, Token(slot + FIRST), interest).is_err() {
        server.dismiss(listing.id, "it could not be polled");
        return None;
    }
    if listing.is_killed() {
        server.dismiss(listing.id, KILLED);
        return None;
    }
    let mut client = Client::new(server, listing);
    client.listing.set_home(worker, slot);
    let is_remote = !matches!(stream, Socket::Unix(_));
    client.home = Home { worker, slot, is_remote };
    slots.insert(Connection::new(stream, client));
    Some(slot)
}

/// Lists connections that have something to do, and that no event has announced.
fn list_unlisted(slots: &mut Slots, ready: &mut Vec<usize>) {
    for (slot, connection) in slots.numbered() {
        if !connection.listed && (connection.has_work() || connection.is_over()) {
            connection.listed = true;
            ready.push(slot);
        }
    }
}

/// Has the system ask the peer whether it is there once the connection was idle for so long, then three times, a third of
/// that apart; without an answer the connection is broken.
fn keep_alive(stream: &mio::net::TcpStream, idle: Duration) -> io::Result<()> {
    /// The system's own.
    const LONGEST: Duration = Duration::from_secs(32_767);
    let idle = idle.min(LONGEST);
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, idle)?;
    sockopt::set_tcp_keepintvl(stream, (idle / 3).max(Duration::from_secs(1)))?;
    Ok(sockopt::set_tcp_keepcnt(stream, 3)?)
}
