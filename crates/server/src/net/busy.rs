//! A thread's connections while a script of its own runs for long, and other threads' transactions meanwhile.
//!
//! A script runs deep inside of a turn, which has the thread's connections in its hands. While it runs, the turn lends all of
//! them but the script's own ([`Lent`]) to the thread's [`Desk`]. Once the script is overdue, its interpreter calls the desk
//! every few milliseconds (`script/interpreter.rs`): it accepts clients, and answers those that are owed nothing by the turn
//! under way: with BUSY, but for the few requests that go all the same, SCRIPT KILL above all. None of these works on data.
//!
//! The desk does not poll, so that the thread's own poll announces later all that it would have anyway.

use super::connection::{Connection, Incoming};
use super::door::Door;
use super::route::Route;
use super::slots::Slots;
use super::turn::refuse_exec;
use super::worker::{Inbox, admit, adopt};
use crate::command::{Env, Next};
use crate::replication::following::Gate;
use crate::script::{Busy, Others, set_others};
use crate::server::Server;
use mio::Registry;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the desk looks at its connections, at most.
const OFTEN: Duration = Duration::from_millis(5);
/// It takes at most one part in this many of the script's time.
const PART: u32 = 10;
/// Connections accepted in one look, and requests of one connection.
const ACCEPTED_MAX: usize = 64;
const REQUESTS_MAX: usize = 64;
/// How soon a thread looks again whether another one's script has ended.
const SOON: Duration = Duration::from_micros(500);

/// What a thread needs to look after its connections without its worker.
pub(super) struct Desk {
    pub(super) server: Arc<Server>,
    pub(super) worker: usize,
    pub(super) inbox: Arc<Inbox>,
    pub(super) registry: Registry,
    /// Second handles of the sockets at which the thread listens, if it does.
    pub(super) doors: Vec<Door>,
}

/// What is on the desk.
#[derive(Default)]
struct OnDesk {
    slots: Slots,
    /// Whether it has served any since it was asked.
    has_served: bool,
}

thread_local! {
    static ON_DESK: RefCell<OnDesk> = RefCell::default();
}

/// A desk that is there until this is dropped.
pub(super) struct OpenDesk(());

impl Drop for OpenDesk {
    fn drop(&mut self) {
        set_others(None);
    }
}

/// Opens this thread's desk.
pub(super) fn open(desk: Desk) -> OpenDesk {
    set_others(Some(Box::new(desk)));
    OpenDesk(())
}

/// Whether the desk has served connections since this was asked last: these may have work that no event will announce.
pub(super) fn has_served() -> bool {
    ON_DESK.with(|on_desk| std::mem::take(&mut on_desk.borrow_mut().has_served))
}

/// Connections that are on the desk until this is dropped.
pub(super) struct Lent<'a>(&'a mut Slots);

impl<'a> Lent<'a> {
    pub(super) fn lend(slots: &'a mut Slots) -> Self {
        ON_DESK.with(|on_desk| std::mem::swap(&mut on_desk.borrow_mut().slots, slots));
        Lent(slots)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        ON_DESK.with(|on_desk| std::mem::swap(&mut on_desk.borrow_mut().slots, self.0));
    }
}

impl Others for Desk {
    fn are_owed(&self) -> bool {
        ON_DESK.with(|on_desk| on_desk.borrow_mut().slots.all().any(|one| one.is_owed()))
    }

    fn look_after(&self) -> Duration {
        ON_DESK.with(|on_desk| self.look(&mut on_desk.borrow_mut()))
    }
}

impl Desk {
    /// Looks after the connections. Returns how soon to do so again.
    fn look(&self, on_desk: &mut OnDesk) -> Duration {
        let began = Instant::now();
        on_desk.has_served = true;
        let stats = &self.server.stats[self.worker];
        // The service manager is told that the thread is not stuck.
        stats.looks.add(1);
        if let Some(notifier) = self.server.notifier.get() {
            notifier.beat(&self.server.stats);
        }
        self.accept(&mut on_desk.slots);
        for (stream, listing) in self.inbox.take_streams() {
            let to = (&*self.server, self.worker, &self.registry);
            adopt(to, &mut on_desk.slots, stream, listing);
        }
        if let Some(busy) = self.server.runs.busy() {
            for (_, connection) in on_desk.slots.numbered() {
                if connection.is_quiet() {
                    self.serve(connection, began, busy);
                }
            }
        }
        OFTEN.max(began.elapsed() * PART)
    }

    fn accept(&self, slots: &mut Slots) {
        for door in &self.doors {
            for _ in 0..ACCEPTED_MAX {
                // Whatever fails is tried again by the worker.
                let Ok(guest) = door.accept(self.server.tls.as_ref()) else { break };
                if let Some((socket, listing)) = admit(&self.server, self.worker, guest) {
                    let to = (&*self.server, self.worker, &self.registry);
                    adopt(to, slots, socket, listing);
                }
            }
        }
    }

    fn serve(&self, connection: &mut Connection, now: Instant, busy: Busy) {
        let stats = &self.server.stats[self.worker];
        // Perhaps there is something: nobody has polled.
        connection.set_readable(false);
        connection.receive(now, stats);
        for _ in 0..REQUESTS_MAX {
            let request = match connection.next_request() {
                Incoming::Request(request) => request,
                Incoming::Exec(exec) => {
                    refuse_exec(stats, connection, &exec, busy);
                    continue;
                }
                Incoming::Nothing => break,
                Incoming::Broken => {
                    stats.error("ERR");
                    connection.refuse();
                    break;
                }
            };
            let route = Route::of(connection, request, Some(busy), Gate::Open);
            connection.stalled = true;
            match route.answer((&self.server, stats), connection, request) {
                Next::Close => {
                    connection.set_closing("QUIT, SHUTDOWN, or a request of HTTP ended it");
                    break;
                }
                // EXEC, PSYNC and SAVE are refused.
                Next::Go | Next::Exec(_) | Next::Leave | Next::Wait => {}
            }
        }
        if !connection.out.is_empty() {
            connection.send(stats);
        }
    }
}

/// Before a transaction that `writes` says would write: waits while another thread's script is long, which holds the
/// writers' lock.
///
/// # Errors
/// When the script is overdue: clients are told.
pub(super) fn await_long(env: Env<'_>, writes: impl Fn() -> bool) -> Result<(), Busy> {
    let server = env.server;
    if !server.runs.has_long_beside(env.worker) || !writes() {
        return Ok(());
    }
    while server.runs.has_long_beside(env.worker) {
        if let Some(busy) = server.runs.busy() {
            return Err(busy);
        }
        std::thread::sleep(SOON);
    }
    Ok(())
}
