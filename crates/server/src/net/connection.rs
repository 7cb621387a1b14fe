//! One client's connection: the bytes that it has sent, and the replies still to be sent.
//!
//! A connection's memory is bounded, whatever its client does: nothing is read while earlier
//! requests are waiting, and nothing is done while too much output is unsent. docs/server.md has the
//! bounds.

use super::socket::Socket;
use crate::client::{Client, Replies};
use crate::command::Exec;
use crate::listing::Listing;
use crate::protocol::{Args, ProtocolError, Reply, Request, RequestReader};
use crate::pubsub::{Parcel, UNSENT_MAX, UNSENT_SECONDS, UNSENT_SOFT};
use crate::replication::{Ask, Wire};
use crate::server::Server;
use crate::stats::Stats;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// While more than this is unsent, nothing more is done for a client.
const MOST_UNSENT: usize = 1 << 20;
/// The same for a client that has yet to give the password.
const MOST_UNSENT_UNAUTHENTICATED: usize = 64 << 10;
/// Bytes that are read in one turn.
const MOST_READ: usize = 64 << 10;
/// Bytes that are sent in one turn, so that sending a large reply does not keep others waiting.
const MOST_SENT: usize = 1 << 20;
/// How long a handshake of TLS may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// An output buffer beyond this is given back once it is sent; all of it, once the client is idle.
const KEEP: usize = 2 << 20;

/// The next input of a client.
pub(crate) enum Incoming {
    Request(Request),
    /// An EXEC that was put off.
    Exec(Box<Exec>),
    /// Nothing, for now or for ever.
    Nothing,
    /// Something that is no request.
    Broken,
}

/// One client's connection.
pub(crate) struct Connection {
    stream: Socket,
    reader: RequestReader,
    /// Requests that were read and then put off.
    put_off: VecDeque<Request>,
    /// The EXEC that was put off after them.
    put_off_exec: Option<Box<Exec>>,
    pub(crate) client: Client,
    pub(crate) out: Vec<u8>,
    /// Bytes of `out` that were sent.
    sent: usize,
    /// The length of `out` when the turn began: the bytes after it are not acknowledged yet.
    acknowledged: usize,
    readable: bool,
    writable: bool,
    /// Whether no complete request is left of the bytes read: only then more are read.
    drained: bool,
    /// Whether the poll has announced that nothing more will arrive, which it does once.
    to_end: bool,
    ended: bool,
    /// Nothing more is read; it is closed when all is sent.
    closing: bool,
    broken: bool,
    /// Why it is closing or broken, for the log: the first reason.
    reason: Option<Cow<'static, str>>,
    /// The error that ends the stream of requests, once those before it are answered.
    refusal: Option<ProtocolError>,
    /// Since when more than [`UNSENT_SOFT`] bytes are unsent to a client that listens.
    lagging: Option<Instant>,
    /// Until when its client waits for a key to be filled: the inner none is for ever.
    pub(crate) blocked: Option<Option<Instant>>,
    /// Whether it waits for something that comes in any case, also when its client sends nothing more.
    awaits: bool,
    /// Requests are waiting that could be done.
    pub(crate) stalled: bool,
    /// Whether it is in the worker's list of connections with work.
    pub(crate) listed: bool,
    /// It has had no turn since it was asked to [`rest`](Connection::rest).
    idle: bool,
    /// When it was made.
    since: Instant,
    /// When it had a turn that [`rest`](Connection::rest) has noticed.
    active: Instant,
    /// Requests that this turn has taken from it.
    pub(crate) taken: usize,
    /// Number of the last batch that it had requests in.
    pub(crate) batch: u64,
    /// Some of these are in the round that is under way, and not yet done.
    pub(crate) waits: bool,
    /// Whether some of these were put off: all that came after them are put off too.
    pub(crate) skips: bool,
}

impl Connection {
    pub(crate) fn new(stream: Socket, client: Client) -> Self {
        Connection {
            stream,
            reader: RequestReader::default(),
            put_off: VecDeque::new(),
            put_off_exec: None,
            client,
            out: Vec::new(),
            sent: 0,
            acknowledged: 0,
            readable: true,
            writable: true,
            drained: true,
            to_end: false,
            ended: false,
            closing: false,
            broken: false,
            reason: None,
            refusal: None,
            lagging: None,
            blocked: None,
            awaits: false,
            stalled: false,
            listed: false,
            idle: false,
            since: Instant::now(),
            active: Instant::now(),
            taken: 0,
            batch: 0,
            waits: false,
            skips: false,
        }
    }

    pub(crate) fn stream(&mut self) -> &mut Socket {
        &mut self.stream
    }

    /// The poll says that there is something to read; `to_end`, that the client's end is.
    pub(crate) fn set_readable(&mut self, to_end: bool) {
        self.readable = true;
        self.to_end |= to_end;
    }

    /// The poll says that there is room to send.
    pub(crate) fn set_writable(&mut self) {
        self.writable = true;
    }

    /// Lets it be closed once its replies are sent.
    pub(crate) fn set_closing(&mut self, reason: &'static str) {
        self.closing = true;
        self.reason.get_or_insert(reason.into());
    }

    fn set_broken(&mut self, error: &io::Error) {
        self.broken = true;
        self.reason.get_or_insert(error.to_string().into());
    }

    /// Whether the unsent output is at its limit, so that nothing more is done for the client.
    pub(crate) fn is_full(&self) -> bool {
        let authenticated = self.client.authenticated;
        let most = if authenticated { MOST_UNSENT } else { MOST_UNSENT_UNAUTHENTICATED };
        self.unsent() > most
    }

    fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Whether its client has become a replica, and all that it is owed is sent.
    pub(crate) fn is_leaving(&self) -> bool {
        self.client.ask.is_some() && self.unsent() == 0
    }

    /// Its parts, if its client has become a replica.
    pub(crate) fn leave(mut self, server: &Server) -> Option<(Wire, Arc<Listing>, Ask)> {
        self.client.leave(server);
        let ask = self.client.ask.take()?;
        let wire = match self.stream {
            Socket::Tcp(stream) => Wire::plain(stream.into()),
            Socket::Tls(tls) => tls.into_wire(),
            // PSYNC has refused it.
            Socket::Unix(_) => return None,
        };
        Some((wire, self.client.listing, *ask))
    }

    /// Whether it can be dropped.
    pub(crate) fn is_over(&self) -> bool {
        self.broken || (self.closing && self.unsent() == 0 && !self.stream.is_pending())
    }

    /// Whether there is something to do that no event will announce.
    pub(crate) fn has_work(&self) -> bool {
        let sends = self.writable && (self.unsent() > 0 || self.stream.is_pending());
        let works = self.readable || self.ended || self.stalled;
        let held =
            self.client.ask.is_some() || self.closing || self.blocked.is_some() || self.is_full();
        !self.broken && (sends || (works && !held) || (self.waits_in_vain() && !self.closing))
    }

    /// Whether its client is owed an answer of the turn under way.
    pub(crate) fn is_owed(&self) -> bool {
        self.waits || self.out.len() > self.acknowledged
    }

    /// Whether its client is owed nothing, and waits for nothing: it can be answered before the turn under way has ended.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_open = !self.closing && !self.broken && !self.ended;
        is_open && self.out.is_empty() && !self.waits && self.blocked.is_none()
    }

    /// Begins a turn: reads the bytes that have come, if no earlier request is left to do.
    pub(crate) fn receive(&mut self, now: Instant, stats: &Stats) {
        self.acknowledged = self.out.len();
        (self.taken, self.idle) = (0, false);
        if self.closing || self.blocked.is_some() || self.is_full() || !self.drained {
            return;
        }
        let mut received = 0;
        // Not for the last few bytes of a turn's limit: they cost a call, as many do.
        while self.readable && received < MOST_READ / 2 {
            let room = self.reader.prepare().min(MOST_READ - received);
            stats.reads.add(1);
            match self.reader.fill(&mut (&mut self.stream).take(room as u64)) {
                Ok(0) => (self.readable, self.ended) = (false, true),
                Ok(read) => {
                    received += read;
                    // Less than there was room for: an edge will announce more.
                    let is_all = read < room && !self.stream.reads_parts();
                    self.readable = !is_all || self.to_end;
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => self.readable = false,
                    ErrorKind::Interrupted => {}
                    _ => {
                        self.readable = false;
                        self.set_broken(&error);
                    }
                },
            }
        }
        if received > 0 {
            self.drained = false;
            stats.input.add(received as u64);
            self.client.listing.set_active(now);
        }
    }

    /// The next complete request. `None` when there is none, for now or for ever.
    pub(crate) fn next_request(&mut self) -> Incoming {
        self.stalled = self.is_full();
        if self.blocked.is_some() {
            // Once it is served, its next requests are looked for.
            self.stalled = true;
            return Incoming::Nothing;
        }
        let goes = self.closing || self.client.ask.is_some();
        if goes || self.stalled || self.client.listing.is_killed() {
            return Incoming::Nothing;
        }
        if let Some(request) = self.put_off.pop_front() {
            return Incoming::Request(request);
        }
        if let Some(exec) = self.put_off_exec.take() {
            return Incoming::Exec(exec);
        }
        if self.refusal.is_some() {
            return Incoming::Broken;
        }
        match self.reader.next(self.client.limits()) {
            Ok(Some(request)) => Incoming::Request(request),
            Ok(None) => {
                self.drained = true;
                if self.ended {
                    self.set_closing("the client closed it");
                }
                Incoming::Nothing
            }
            Err(error) => {
                self.refusal = Some(error);
                Incoming::Broken
            }
        }
    }

    /// Takes back the request that was taken last (or, of several, the last one first).
    pub(crate) fn put_back(&mut self, request: Request) {
        self.put_off.push_front(request);
        self.stalled = true;
    }

    /// Takes back an EXEC, which was the last of several.
    pub(crate) fn put_back_exec(&mut self, exec: Box<Exec>) {
        self.put_off_exec = Some(exec);
        self.stalled = true;
    }

    pub(crate) fn args(&self, request: Request) -> Args<'_> {
        self.reader.args(request)
    }

    /// A request's arguments, whose it is, and where its reply goes.
    pub(crate) fn split(&mut self, request: Request) -> (Args<'_>, &Listing, Reply<'_>) {
        let reply = Reply::new(&mut self.out, self.client.protocol);
        (self.reader.args(request), &self.client.listing, reply)
    }

    /// A request's arguments, the client, and its output.
    pub(crate) fn split_client(
        &mut self,
        request: Request,
    ) -> (Args<'_>, &mut Client, &mut Vec<u8>) {
        (self.reader.args(request), &mut self.client, &mut self.out)
    }

    /// Gives up on a client that breaks the protocol.
    pub(crate) fn refuse(&mut self) {
        if let Some(error) = self.refusal.take() {
            Reply::new(&mut self.out, self.client.protocol).error(&format!("ERR {}", error.0));
        }
        self.set_closing("the client broke the protocol");
    }

    /// Takes back the reply that was written since `start`, if the client does not want it.
    pub(crate) fn hush(&mut self, start: usize) {
        let wanted = self.client.replies == Replies::On;
        if !wanted && self.out.len() > start {
            self.out.truncate(start);
            if self.client.replies == Replies::Skip {
                self.client.replies = Replies::On;
            }
        }
    }

    /// Whether its client is silent since it waits for something.
    pub(crate) fn expects(&self) -> bool {
        self.blocked.is_some() || self.client.listens()
    }

    /// Its client waits for a reply that comes in any case.
    pub(crate) fn wait_to_the_end(&mut self) {
        (self.blocked, self.awaits) = (Some(None), true);
    }

    /// Whether its client waits, and has gone.
    pub(crate) fn waits_in_vain(&self) -> bool {
        let is_at_end = (self.to_end || self.ended) && !self.awaits;
        self.blocked.is_some() && (is_at_end || self.broken)
    }

    /// Its client waits no longer, and gets this reply.
    pub(crate) fn unblock(&mut self, reply: &[u8]) {
        (self.blocked, self.awaits) = (None, false);
        self.stalled = true;
        // It was not idle while it waited.
        (self.idle, self.active) = (false, Instant::now());
        let start = self.out.len();
        self.out.extend_from_slice(reply);
        self.hush(start);
    }

    /// Adds a message for its client, which is ended if it does not read them.
    pub(crate) fn add_message(&mut self, parcel: &Parcel) {
        let unsent = self.unsent();
        if unsent <= UNSENT_SOFT {
            // It has caught up since the last message.
            self.lagging = None;
        }
        let is_over = unsent > UNSENT_MAX
            || self.lagging.is_some_and(|since| since.elapsed().as_secs() >= UNSENT_SECONDS);
        if is_over {
            self.broken = true;
            self.reason.get_or_insert("it does not read the messages that it listens for".into());
            return;
        }
        if unsent > UNSENT_SOFT {
            self.lagging.get_or_insert_with(Instant::now);
        }
        if self.sent > MOST_UNSENT && self.sent >= unsent {
            // What was sent would grow for as long as something is unsent.
            self.out.drain(..self.sent);
            self.acknowledged = self.acknowledged.saturating_sub(self.sent);
            self.sent = 0;
        }
        parcel.write(&mut self.out, self.client.protocol);
    }

    /// Takes back this turn's replies: their writes may not be durable. The client gets one error for all of it.
    pub(crate) fn retract(&mut self) {
        let told = self.closing && self.out.len() <= self.acknowledged;
        self.out.truncate(self.acknowledged);
        if !told {
            let text = "ERR persistence failed: nothing is acknowledged any more";
            Reply::new(&mut self.out, self.client.protocol).error(text);
        }
        self.set_closing("the pool's medium failed");
    }

    /// Sends as many bytes as it can now, and makes room.
    pub(crate) fn send(&mut self, stats: &Stats) {
        if self.put_off.is_empty() {
            self.reader.release();
        }
        let end = self.out.len().min(self.sent + MOST_SENT);
        while self.sent < end && self.writable && !self.broken {
            stats.writes.add(1);
            match self.stream.write(&self.out[self.sent..end]) {
                Ok(0) => self.set_broken(&ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.sent += written;
                    stats.output.add(written as u64);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => self.writable = false,
                    ErrorKind::Interrupted => {}
                    _ => self.set_broken(&error),
                },
            }
        }
        if self.stream.is_pending() && self.writable && !self.broken {
            match self.stream.flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) => self.set_broken(&error),
                Ok(()) => {}
            }
        }
        self.tidy();
    }

    /// Whether its peer has taken too long to begin with TLS.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.since);
        since > HANDSHAKE && self.stream.is_handshaking()
    }

    /// Gives back the room of sent bytes.
    fn tidy(&mut self) {
        let unsent = self.unsent();
        if unsent == 0 {
            (self.sent, self.acknowledged) = (0, 0);
            self.out.clear();
            self.out.shrink_to(KEEP);
        } else if self.sent >= unsent && unsent <= MOST_UNSENT {
            // A larger rest is not moved: that would take long, and nothing is added to it.
            self.out.drain(..self.sent);
            self.out.shrink_to(KEEP);
            self.acknowledged = self.out.len();
            self.sent = 0;
        }
    }

    /// How long its client has neither sent nor read anything, as [`rest`](Connection::rest) has seen it.
    pub(crate) fn idle_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.active)
    }

    /// Gives back empty buffers, if there was nothing to do since this was asked last.
    pub(crate) fn rest(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.idle, true) {
            self.active = now;
        } else if self.unsent() == 0 && self.put_off.is_empty() {
            self.out = Vec::new();
            self.put_off = VecDeque::new();
            self.reader.rest();
        }
    }

    /// Forgets the client.
    pub(crate) fn close(mut self, server: &Server) {
        self.client.leave(server);
        self.stream.close();
        let reason = self.reason.as_deref().unwrap_or("the server ends");
        server.dismiss(self.client.listing.id, reason);
    }
}
