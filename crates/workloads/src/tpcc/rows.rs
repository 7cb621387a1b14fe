//! The tables: the names of rows, and the contents of their fields.
//!
//! A row is a hash named `TABLE:key:key`. Its columns are grouped into fields by how they change:
//! columns that transactions change together are a field, those that never change another. Columns have
//! a fixed length, texts are filled up with spaces, and ids are in the name only.
//!
//! ```text
//! WAREHOUSE:w            info 83, ytd 8
//! DISTRICT:w:d           info 83, ytd 8, next 4
//! CUSTOMER:w:d:c         info 141, account 24, data 500
//! HISTORY:w:d:c:n        payment 45       the customer's nth payment
//! ORDERS:w:d:o           order 14, carrier 1
//! NEW_ORDER:w:d          sorted set of o, by o: its rows have nothing but ids
//! ORDER_LINE:w:d:o:n     line 41, delivered 8
//! STOCK:w:i              level 14, districts 240, data 50
//! ITEM:i                 item 82
//! CUSTOMER_NAME:w:d:LAST sorted set of first name and c
//! CUSTOMER_ORDERS:w:d:c  sorted set of o, by -o: the newest order is the first
//! ```

use std::ops::Deref;

/// The name of a row or sorted set.
#[derive(Clone, Copy)]
pub(super) struct Key {
    bytes: [u8; 64],
    len: usize,
}

impl Key {
    fn new(table: &str, ids: &[u32]) -> Self {
        let mut key = Key { bytes: [0; 64], len: 0 };
        key.push(table.as_bytes());
        for id in ids {
            key.push(b":");
            key.push(itoa::Buffer::new().format(*id).as_bytes());
        }
        key
    }

    fn push(&mut self, part: &[u8]) {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }

    pub(super) fn warehouse(warehouse: u32) -> Self {
        Key::new("WAREHOUSE", &[warehouse])
    }

    pub(super) fn district(warehouse: u32, district: u32) -> Self {
        Key::new("DISTRICT", &[warehouse, district])
    }

    pub(super) fn customer(warehouse: u32, district: u32, customer: u32) -> Self {
        Key::new("CUSTOMER", &[warehouse, district, customer])
    }

    /// TPC-C's history has no key. Here it has the customer and the payment's number, so that it
    /// is found again.
    pub(super) fn history(warehouse: u32, district: u32, customer: u32, payment: u32) -> Self {
        Key::new("HISTORY", &[warehouse, district, customer, payment])
    }

    pub(super) fn order(warehouse: u32, district: u32, order: u32) -> Self {
        Key::new("ORDERS", &[warehouse, district, order])
    }

    pub(super) fn new_orders(warehouse: u32, district: u32) -> Self {
        Key::new("NEW_ORDER", &[warehouse, district])
    }

    pub(super) fn line(warehouse: u32, district: u32, order: u32, number: u32) -> Self {
        Key::new("ORDER_LINE", &[warehouse, district, order, number])
    }

    pub(super) fn stock(warehouse: u32, item: u32) -> Self {
        Key::new("STOCK", &[warehouse, item])
    }

    pub(super) fn item(item: u32) -> Self {
        Key::new("ITEM", &[item])
    }

    pub(super) fn named(warehouse: u32, district: u32, last: &[u8]) -> Self {
        let mut key = Key::new("CUSTOMER_NAME", &[warehouse, district]);
        key.push(b":");
        key.push(last.trim_ascii_end());
        key
    }

    pub(super) fn orders_of(warehouse: u32, district: u32, customer: u32) -> Self {
        Key::new("CUSTOMER_ORDERS", &[warehouse, district, customer])
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A member of the index by name: the first name, then the customer.
pub(super) fn name_member(first: &[u8; 16], customer: u32) -> Vec<u8> {
    [&first[..], itoa::Buffer::new().format(customer).as_bytes()].concat()
}

/// The first name and the customer of a member.
pub(super) fn of_name_member(member: &[u8]) -> Option<([u8; 16], u32)> {
    let (first, customer) = member.split_first_chunk()?;
    Some((*first, id_of(customer)?))
}

/// The id that a member is.
pub(super) fn id_of(member: &[u8]) -> Option<u32> {
    std::str::from_utf8(member).ok()?.parse().ok()
}

/// A column, of a fixed length.
trait Column: Sized {
    const BYTES: usize;
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! number_columns {
    ($($number:ty),*) => {$(
        impl Column for $number {
            const BYTES: usize = size_of::<$number>();

            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$number>::from_le_bytes(*bytes))
            }
        }
    )*};
}

number_columns!(u8, u16, u32, u64, i64);

impl<const N: usize> Column for [u8; N] {
    const BYTES: usize = N;

    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (bytes, rest) = from.split_first_chunk()?;
        *from = rest;
        Some(*bytes)
    }
}

/// Columns that are one field.
pub(super) trait Group: Sized {
    /// The field's name.
    const FIELD: &'static [u8];
    /// The field's length.
    const BYTES: usize;

    /// The field's value.
    fn encode(&self) -> Vec<u8>;

    /// The columns of a field; `None` unless it has the right length.
    fn decode(bytes: &[u8]) -> Option<Self>;

    /// The field, with its name.
    fn field(&self) -> (&'static [u8], Vec<u8>) {
        (Self::FIELD, self.encode())
    }
}

macro_rules! groups {
    ($(
        $(#[$doc:meta])*
        $group:ident = $field:literal { $($column:ident: $type:ty),* $(,)? }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(super) struct $group {
            $(pub(super) $column: $type,)*
        }

        impl Group for $group {
            const FIELD: &'static [u8] = $field.as_bytes();
            const BYTES: usize = 0 $(+ <$type as Column>::BYTES)*;

            fn encode(&self) -> Vec<u8> {
                let mut bytes = Vec::with_capacity(Self::BYTES);
                $(self.$column.put(&mut bytes);)*
                bytes
            }

            fn decode(mut bytes: &[u8]) -> Option<Self> {
                let group = $group { $($column: Column::take(&mut bytes)?,)* };
                bytes.is_empty().then_some(group)
            }
        }
    )*};
}

groups! {
    /// Of a warehouse or a district. The tax is in hundredths of a per cent.
    Info = "info" {
        name: [u8; 10], street_1: [u8; 20], street_2: [u8; 20], city: [u8; 20],
        state: [u8; 2], zip: [u8; 9], tax: u16,
    }

    /// The amount paid to a warehouse or a district this year, in cents.
    Ytd = "ytd" { ytd: i64 }

    /// The number of a district's next order.
    NextId = "next" { id: u32 }

    /// A customer's columns that never change. Limit in cents, discount in hundredths of a per cent.
    CustomerInfo = "info" {
        first: [u8; 16], middle: [u8; 2], last: [u8; 16],
        street_1: [u8; 20], street_2: [u8; 20], city: [u8; 20], state: [u8; 2], zip: [u8; 9],
        phone: [u8; 16], since: u64, credit: [u8; 2], credit_limit: i64, discount: u16,
    }

    /// A customer's balance and payments, in cents, and how many payments and deliveries.
    Account = "account" { balance: i64, ytd_payment: i64, payments: u32, deliveries: u32 }

    /// Notes about a customer.
    CustomerData = "data" { data: [u8; 500] }

    /// A payment: where, when, and how many cents.
    Payment = "payment" {
        warehouse: u32, district: u8, date: u64, amount: i64, data: [u8; 24],
    }

    /// An order's columns that never change.
    Order = "order" { customer: u32, date: u64, lines: u8, all_local: u8 }

    /// The carrier that delivers an order; 0: none yet.
    Carrier = "carrier" { carrier: u8 }

    /// A line's columns that never change. Amount in cents.
    Line = "line" { item: u32, supply: u32, quantity: u8, amount: i64, district: [u8; 24] }

    /// When a line was delivered; 0: not yet.
    Delivered = "delivered" { date: u64 }

    /// The quantity of a stock, and the orders of it: units, orders, orders from other warehouses.
    Level = "level" { quantity: u16, ytd: u32, orders: u32, remote: u32 }

    /// A stock's text for each of ten districts.
    Districts = "districts" { texts: [u8; 240] }

    /// A text about a stock.
    StockData = "data" { data: [u8; 50] }

    /// An item. Price in cents.
    Item = "item" { image: u32, name: [u8; 24], price: u32, data: [u8; 50] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the table above says, and TPC-C: 89, 95, 655, 46, 24, 54, 306 and 82 bytes with the
    /// ids, which are in the names here.
    #[test]
    fn rows_are_as_long_as_those_of_tpc_c() {
        assert_eq!(Info::BYTES + Ytd::BYTES, 91);
        assert_eq!(Info::BYTES + Ytd::BYTES + NextId::BYTES, 95);
        assert_eq!(CustomerInfo::BYTES + Account::BYTES + CustomerData::BYTES, 665);
        assert_eq!(Payment::BYTES, 45);
        assert_eq!(Order::BYTES + Carrier::BYTES, 15);
        assert_eq!(Line::BYTES + Delivered::BYTES, 49);
        assert_eq!(Level::BYTES + Districts::BYTES + StockData::BYTES, 304);
        assert_eq!(Item::BYTES, 82);
    }

    #[test]
    fn groups_come_back_and_only_whole() {
        let level = Level { quantity: 91, ytd: 7, orders: 2, remote: 1 };
        let bytes = level.encode();
        assert_eq!(Level::decode(&bytes), Some(level));
        assert_eq!(Level::decode(&bytes[1..]), None);
        assert_eq!(Level::decode(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn names_of_rows() {
        assert_eq!(&*Key::line(1, 10, 3001, 15), b"ORDER_LINE:1:10:3001:15");
        assert_eq!(&*Key::named(2, 3, b"BARBARBAR       "), b"CUSTOMER_NAME:2:3:BARBARBAR");
        let longest = Key::history(u32::MAX, u32::MAX, u32::MAX, u32::MAX);
        assert_eq!(longest.len(), 51);
        assert_eq!(of_name_member(&name_member(b"Ada             ", 17)).map(|it| it.1), Some(17));
    }
}
