//! MIGRATE, which a thread of its own does (`migrate`): the client waits, and nobody else.

use super::{ClientCall, Command, Failure, Next, Outcome, Run};
use crate::migrate::Move;
use crate::replication::following::{Gate, READONLY};
use crate::waiting::Address;

pub(super) const TABLE: &[Command] = &[Command::new(
    "migrate",
    -6,
    (3, 3, 1),
    Run::Client(migrate),
    "Moves keys to another server.",
)];

fn migrate(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let (client, server) = (&*call.client, call.server);
    if server.following.gate() == Gate::ReadOnly {
        return Err(Failure::Say(READONLY.into()));
    }
    let (home, id) = (client.home, client.listing.id);
    let to = Address { worker: home.worker, slot: home.slot, id };
    let request = Move::parse(call.args, to, client.protocol, client.db)?;
    server.migration.order(server, request)?;
    Ok(Next::Wait)
}
