//! Connections by number.

use super::connection::Connection;

/// Connections by number; the numbers of closed ones are used again.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Option<Connection>>,
    free: Vec<usize>,
}

impl Slots {
    pub(super) fn get(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The number that the next connection gets.
    pub(super) fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.slots.len())
    }

    pub(super) fn insert(&mut self, connection: Connection) {
        match self.free.pop() {
            Some(slot) => self.slots[slot] = Some(connection),
            None => self.slots.push(Some(connection)),
        }
    }

    pub(super) fn remove(&mut self, slot: usize) -> Option<Connection> {
        let connection = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(connection)
    }

    /// Takes a connection out for a while: its number stays its own.
    pub(super) fn lift(&mut self, slot: usize) -> Option<Connection> {
        self.slots.get_mut(slot)?.take()
    }

    /// Puts it back.
    pub(super) fn put_down(&mut self, slot: usize, connection: Connection) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(connection);
        }
    }

    /// Those that are open, with their numbers.
    pub(super) fn numbered(&mut self) -> impl Iterator<Item = (usize, &mut Connection)> {
        let all = self.slots.iter_mut().enumerate();
        all.filter_map(|(slot, one)| Some((slot, one.as_mut()?)))
    }

    /// Those that are open.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.slots.iter_mut().flatten()
    }

    /// The numbers of those that are to be closed, for a reason.
    pub(super) fn to_close(
        &self,
        reason: impl Fn(&Connection) -> Option<&'static str>,
    ) -> Vec<(usize, &'static str)> {
        let open = self.slots.iter().enumerate();
        open.filter_map(|(slot, one)| Some((slot, reason(one.as_ref()?)?))).collect()
    }

    /// Takes all of them.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Connection> + '_ {
        self.free.clear();
        self.slots.drain(..).flatten()
    }
}
