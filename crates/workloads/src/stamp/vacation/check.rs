//! Checks of the agency as a whole.

use super::manager::{FREE, LIST, MAPS, Manager, TOTAL, USED, reserved};
use super::task::Type;
use crate::stamp::block::{self, word};
use crate::stamp::list::List;
use crate::toggle::KeySet;
use crate::{Failure, Outcome};
use perdura::collections::Visit;
use perdura::{Error, Result, Tx};
use std::collections::BTreeMap;

/// Checks the trees, every row and every customer, and reports all blocks. Returns the number of reservations.
///
/// Corruption of a structure is an error; rows and reservations that do not agree are a wrong answer.
pub(super) fn agency<T: Tx + ?Sized>(
    tx: &mut T,
    manager: Manager,
    visit: &mut Visit<'_>,
) -> Result<Outcome<u64>> {
    let (mut used, mut outcome) = (BTreeMap::new(), Ok(0));
    let mut complain = |what: String| {
        if outcome.is_ok() {
            outcome = Err(Failure::Wrong(what));
        }
    };
    for of in Type::ALL {
        let mut rows = Vec::new();
        let table = manager.table(of);
        table.check(tx, visit, &mut |id, row| {
            rows.push((id, row));
            Ok(())
        })?;
        for (id, at) in rows {
            visit(at)?;
            let mut row = [0; 5];
            block::read(tx, at, &mut row)?;
            let [taken, free, total] = [USED, FREE, TOTAL].map(|field| row[field as usize]);
            let adds_up = taken.checked_add(free) == Some(total) && total > 0;
            if row[0] != id || !adds_up {
                complain(format!("row {id} of {of:?}: {taken} used, {free} free, {total} in all"));
            }
            used.insert((of, id), taken);
        }
    }
    let mut customers = Vec::new();
    manager.customers.check(tx, visit, &mut |id, customer| {
        customers.push((id, customer));
        Ok(())
    })?;
    let mut reservations = 0;
    for (id, customer) in customers {
        visit(customer)?;
        if tx.read_word(customer)? != id {
            return Err(Error::corrupt("a customer under another's id", customer));
        }
        List(word(customer, LIST)).check(tx, visit, |key, _| {
            reservations += 1;
            match reserved(key).and_then(|place| used.get_mut(&place)) {
                Some(left) if *left > 0 => *left -= 1,
                _ => complain(format!("customer {id} has {key:#x}, which no row counts")),
            }
            Ok(())
        })?;
    }
    if let Some((place, left)) = used.iter().find(|(_, left)| **left > 0) {
        complain(format!("{place:?} counts {left} reservations that nobody has"));
    }
    Ok(outcome.map(|_: i32| reservations))
}

/// Checks the structure at the root, and reports its blocks.
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    let mut maps = [0; MAPS];
    block::read(tx, at, &mut maps)?;
    match agency(tx, Manager::open(maps), visit)? {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::corrupt("rows and reservations that do not agree", at)),
    }
}
