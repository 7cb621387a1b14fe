//! An order book that outlives its process. Orders meet by price, then by age.
//!
//! `order_book buy 100 5`, `order_book sell 99 3`, `order_book cancel 1`, `order_book`

use perdura::collections::{Cell, HashMap, OrderedMap};
use perdura::{Error, Options, Persist, Tx, TxExt};
use std::env::args;

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
enum Side {
    Buy,
    Sell,
}

#[derive(Clone, Copy, Debug, Persist)]
struct Order {
    side: Side,
    price: u64,
    left: u64,
}

impl Order {
    /// The least key is served first.
    fn key(&self, number: u64) -> (u64, u64) {
        match self.side {
            Side::Buy => (u64::MAX - self.price, number),
            Side::Sell => (self.price, number),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum BookError {
    #[error("there is no order {0}")]
    Unknown(u64),
    #[error(transparent)]
    Pool(#[from] Error),
}

struct Book {
    last: Cell<u64>,
    orders: HashMap<u64, Order>,
    buys: OrderedMap<(u64, u64), ()>,
    sells: OrderedMap<(u64, u64), ()>,
}

impl Book {
    fn open(tx: &mut dyn Tx) -> Result<Book, Error> {
        Ok(Book {
            last: tx.open_or_create("last")?,
            orders: tx.open_or_create("orders")?,
            buys: tx.open_or_create("buys")?,
            sells: tx.open_or_create("sells")?,
        })
    }

    /// The text to print once it has committed.
    fn place(&self, tx: &mut dyn Tx, mut order: Order) -> Result<String, BookError> {
        let mut said = String::new();
        let (own, other) = match order.side {
            Side::Buy => (self.buys, self.sells),
            Side::Sell => (self.sells, self.buys),
        };
        while order.left > 0 {
            let Some(((_, number), ())) = other.first(tx)? else { break };
            let mut met = self.orders.get(tx, number)?.ok_or(BookError::Unknown(number))?;
            let (buy, sell) = if order.side == Side::Buy { (order, met) } else { (met, order) };
            if buy.price < sell.price {
                break;
            }
            let traded = order.left.min(met.left);
            (order.left, met.left) = (order.left - traded, met.left - traded);
            said += &format!("{traded} at {} from order {number}\n", met.price);
            if met.left > 0 {
                self.orders.insert(tx, number, met)?;
            } else {
                self.cancel(tx, number)?;
            }
        }
        let number = self.last.get(tx)? + 1;
        self.last.set(tx, number)?;
        if order.left > 0 {
            self.orders.insert(tx, number, order)?;
            own.insert(tx, order.key(number), ())?;
        }
        Ok(said + &format!("order {number}\n"))
    }

    fn cancel(&self, tx: &mut dyn Tx, number: u64) -> Result<(), BookError> {
        let order = self.orders.remove(tx, number)?.ok_or(BookError::Unknown(number))?;
        let queue = if order.side == Side::Buy { self.buys } else { self.sells };
        queue.remove(tx, order.key(number))?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Options::new().open_or_create("book.pool")?;
    let number = |at| args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(0);
    let (price, left) = (number(2), number(3));
    let side = match args().nth(1).as_deref() {
        Some("buy") => Some(Side::Buy),
        Some("sell") => Some(Side::Sell),
        _ => None,
    };
    let said = pool.session()?.try_transaction(|tx| {
        let book = Book::open(tx)?;
        match (side, args().nth(1).as_deref()) {
            (Some(side), _) => book.place(tx, Order { side, price, left }),
            (None, Some("cancel")) => book.cancel(tx, price).map(|()| String::new()),
            (None, _) => book.orders.iter(tx)?.map(|order| Ok(format!("{:?}\n", order?))).collect(),
        }
    })?;
    print!("{said}"); // What it says is durable.
    Ok(())
}
