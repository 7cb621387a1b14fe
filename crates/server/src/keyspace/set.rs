//! Sets.

use super::Short;
use super::entry::{Form, Kind};
use super::table::{Table, TableValue};
use perdura::collections::HashMap;
use perdura::{Result, Tx};

/// A set.
pub(crate) type Set = Table<()>;
/// The members of a large set.
pub(crate) type Members = HashMap<Short, ()>;

/// Called with a member in a transaction; false ends the walk.
pub(crate) type EachMember<'a, E> = dyn FnMut(&mut dyn Tx, &[u8]) -> Result<bool, E> + 'a;

/// Members looked at in one step of a walk.
const STEP: u64 = 256;

impl TableValue for () {
    const KIND: Kind = Kind::Set;
    const SMALL: Form = Form::MemberImage;
    const LARGE: Form = Form::Members;

    fn lend(_: &[u8]) {}

    fn bytes((): ()) -> Vec<u8> {
        Vec::new()
    }
}

impl Set {
    /// Calls `each` with every member, until it returns false. It may change anything but this set.
    pub(crate) fn walk<E: From<perdura::Error>>(
        &self,
        tx: &mut dyn Tx,
        each: &mut EachMember<'_, E>,
    ) -> Result<(), E> {
        let mut cursor = 0;
        loop {
            let (next, members) = self.scan(tx, cursor, STEP)?;
            for (member, _) in members {
                if !each(tx, &member)? {
                    return Ok(());
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// A member that `seed` chooses; `None` if there is none.
    pub(crate) fn random(&self, tx: &mut dyn Tx, seed: u64) -> Result<Option<Vec<u8>>> {
        match self {
            Table::Small(image) => {
                let chosen = seed.checked_rem(image.len() as u64);
                let chosen = chosen.and_then(|index| image.iter().nth(index as usize));
                Ok(chosen.map(|(member, _)| member.to_vec()))
            }
            Table::Large(members) => Ok(members.random(tx, seed)?.map(|(member, ())| member)),
        }
    }

    /// Whether all members are integers as a computer writes them.
    pub(crate) fn is_of_integers(&self) -> bool {
        let is_integer = |name| crate::protocol::number::parse_i64(name).is_some();
        match self {
            Table::Small(image) => image.iter().all(|(member, _)| is_integer(member)),
            Table::Large(_) => false,
        }
    }
}
