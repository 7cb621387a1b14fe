//! `crates/heap/examples/order_book.rs` on redb, to compare the programs: the same orders, prices and output.

use redb::{Database, ReadableTable, Table, TableDefinition, WriteTransaction};
use std::env::args;

const LAST: TableDefinition<(), u64> = TableDefinition::new("last");
/// Whether it buys, its price, and what is left of it.
const ORDERS: TableDefinition<u64, (bool, u64, u64)> = TableDefinition::new("orders");
const BUYS: TableDefinition<(u64, u64), ()> = TableDefinition::new("buys");
const SELLS: TableDefinition<(u64, u64), ()> = TableDefinition::new("sells");

#[derive(Clone, Copy, Debug)]
struct Order {
    buys: bool,
    price: u64,
    left: u64,
}

impl Order {
    /// The least key is served first.
    fn key(&self, number: u64) -> (u64, u64) {
        (if self.buys { u64::MAX - self.price } else { self.price }, number)
    }
}

#[derive(Debug, thiserror::Error)]
enum BookError {
    #[error("there is no order {0}")]
    Unknown(u64),
    #[error(transparent)]
    Store(#[from] redb::Error),
}

impl From<redb::StorageError> for BookError {
    fn from(error: redb::StorageError) -> Self {
        BookError::Store(error.into())
    }
}

struct Book<'t> {
    last: Table<'t, (), u64>,
    orders: Table<'t, u64, (bool, u64, u64)>,
    buys: Table<'t, (u64, u64), ()>,
    sells: Table<'t, (u64, u64), ()>,
}

impl<'t> Book<'t> {
    fn open(tx: &'t WriteTransaction) -> Result<Book<'t>, redb::TableError> {
        Ok(Book {
            last: tx.open_table(LAST)?,
            orders: tx.open_table(ORDERS)?,
            buys: tx.open_table(BUYS)?,
            sells: tx.open_table(SELLS)?,
        })
    }

    fn order(&self, number: u64) -> Result<Order, BookError> {
        let (buys, price, left) =
            self.orders.get(number)?.ok_or(BookError::Unknown(number))?.value();
        Ok(Order { buys, price, left })
    }

    fn place(&mut self, mut order: Order) -> Result<u64, BookError> {
        while order.left > 0 {
            let other = if order.buys { &self.sells } else { &self.buys };
            let Some(number) = other.first()?.map(|(key, _)| key.value().1) else { break };
            let mut met = self.order(number)?;
            let (buy, sell) = if order.buys { (order, met) } else { (met, order) };
            if buy.price < sell.price {
                break;
            }
            let traded = order.left.min(met.left);
            (order.left, met.left) = (order.left - traded, met.left - traded);
            println!("{traded} at {} from order {number}", met.price);
            if met.left > 0 {
                self.orders.insert(number, (met.buys, met.price, met.left))?;
            } else {
                self.cancel(number)?;
            }
        }
        let number = self.last.get(())?.map_or(0, |last| last.value()) + 1;
        self.last.insert((), number)?;
        if order.left > 0 {
            self.orders.insert(number, (order.buys, order.price, order.left))?;
            let own = if order.buys { &mut self.buys } else { &mut self.sells };
            own.insert(order.key(number), ())?;
        }
        Ok(number)
    }

    fn cancel(&mut self, number: u64) -> Result<(), BookError> {
        let order = self.order(number)?;
        self.orders.remove(number)?;
        let queue = if order.buys { &mut self.buys } else { &mut self.sells };
        queue.remove(order.key(number))?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Database::create("book.redb")?;
    let number = |at| args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(0);
    let (price, left) = (number(2), number(3));
    let tx = store.begin_write()?;
    {
        let mut book = Book::open(&tx)?;
        match args().nth(1).as_deref() {
            Some("buy") => println!("order {}", book.place(Order { buys: true, price, left })?),
            Some("sell") => println!("order {}", book.place(Order { buys: false, price, left })?),
            Some("cancel") => book.cancel(price)?,
            _ => {
                for order in book.orders.iter()? {
                    println!("{:?}", order?.1.value());
                }
            }
        }
    }
    tx.commit()?;
    Ok(())
}
