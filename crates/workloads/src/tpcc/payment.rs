//! Payment: a customer pays in some district, which may be another warehouse's.

use super::input::{self, Who};
use super::rows::{Account, CustomerData, CustomerInfo, Group, Info, Key, Payment, Ytd};
use super::tables::{Tables, no_customer};
use super::{Cents, draw};
use crate::Records;
use perdura::Result;

/// Pays, and returns the customer's balance afterwards.
pub(super) fn run<R: Records>(tables: &mut Tables<'_, R>, input: &input::Payment) -> Result<Cents> {
    let input::Payment { warehouse, district, amount, .. } = *input;
    let warehouse_name = receive(tables, &Key::warehouse(warehouse), amount)?;
    let district_name = receive(tables, &Key::district(warehouse, district), amount)?;
    let (cw, cd) = (input.customer_warehouse, input.customer_district);
    let customer = find_customer(tables, cw, cd, input.who)?;
    let row = Key::customer(cw, cd, customer);
    let account: Account = tables.get(&row)?;
    let account = Account {
        balance: account.balance.wrapping_sub(amount),
        ytd_payment: account.ytd_payment.wrapping_add(amount),
        payments: account.payments.wrapping_add(1),
        ..account
    };
    tables.put(&row, &account)?;
    let info: CustomerInfo = tables.get(&row)?;
    if &info.credit == b"BC" {
        let data: CustomerData = tables.get(&row)?;
        tables.put(&row, &noted(&data, customer, input))?;
    }
    let payment = Payment {
        warehouse,
        district: district as u8,
        date: input.date,
        amount,
        data: receipt(&warehouse_name, &district_name),
    };
    let history = Key::history(cw, cd, customer, account.payments);
    tables.insert(&history, &[payment.field()])?;
    Ok(account.balance)
}

/// Adds to the amount paid to a warehouse or district, and returns its name.
fn receive<R: Records>(tables: &mut Tables<'_, R>, row: &Key, amount: Cents) -> Result<[u8; 10]> {
    let (info, ytd): (Info, Ytd) = (tables.get(row)?, tables.get(row)?);
    tables.put(row, &Ytd { ytd: ytd.ytd.wrapping_add(amount) })?;
    Ok(info.name)
}

/// The customer: of those with the same last name, the one in the middle by first name.
pub(super) fn find_customer<R: Records>(
    tables: &mut Tables<'_, R>,
    warehouse: u32,
    district: u32,
    who: Who,
) -> Result<u32> {
    match who {
        Who::Number(customer) => Ok(customer),
        Who::Name(last) => {
            let named = tables.named(&Key::named(warehouse, district, &last))?;
            let middle = named.len().saturating_sub(1) / 2;
            named.get(middle).map(|(_, customer)| *customer).ok_or_else(no_customer)
        }
    }
}

/// The notes about a customer with bad credit: this payment first, the oldest is cut off.
fn noted(data: &CustomerData, customer: u32, input: &input::Payment) -> CustomerData {
    let input::Payment { warehouse, district, customer_warehouse, customer_district, .. } = input;
    let (whole, cents) = (input.amount / 100, input.amount % 100);
    let note = format!(
        "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {whole}.{cents:02}|"
    );
    let mut noted: [u8; 500] = draw::fixed(&note);
    let len = note.len();
    noted[len..].copy_from_slice(&data.data[..500 - len]);
    CustomerData { data: noted }
}

/// The names of warehouse and district with four spaces between them.
fn receipt(warehouse: &[u8; 10], district: &[u8; 10]) -> [u8; 24] {
    let mut text = [b' '; 24];
    text[..10].copy_from_slice(warehouse);
    text[14..].copy_from_slice(district);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_first_and_the_oldest_go() {
        let mut data = [b'o'; 500];
        data[499] = b'x';
        let input = input::Payment {
            warehouse: 5,
            district: 4,
            customer_warehouse: 3,
            customer_district: 2,
            who: Who::Number(1),
            amount: 1_205,
            date: 1,
        };
        let noted = noted(&CustomerData { data }, 1, &input).data;
        assert!(noted.starts_with(b"1 2 3 4 5 12.05|ooo"));
        assert!(noted.ends_with(b"o"));
    }
}
