mod sizes;

use super::input::{self, NewOrder, Wanted, Who};
use super::rows::{
    Account, Carrier, CustomerInfo, Delivered, Group, Key, Level, Line, NextId, Order, Payment,
    Ytd, name_member,
};
use super::tables::Tables;
use super::{
    Condition, Desk, Input, Loader, Scale, Tpcc, check_consistency, check_loaded, delivery,
    new_order, order_status, payment, stock_level, warehouse_of,
};
use crate::random::Random;
use crate::records::{Plain, Rooted};
use crate::{Progress, Records, Share};
use perdura::testing::TestHeap;
use perdura::{Error, Format, Heap, Result, Volatile};
use perdura_memory::{Memory, Ram};
use std::collections::BTreeMap;
use std::sync::Arc;

const SEED: u64 = 20_240_607;
const SCALE: Scale =
    Scale { warehouses: 2, districts: 2, customers: 12, items: 30, new_orders: 4, lines: (2, 4) };

type Hands<'a> = Tables<'a, Plain>;

/// The tables in a heap for tests.
struct Shop {
    heap: TestHeap,
    records: Plain,
}

impl Shop {
    fn loaded() -> Self {
        Shop::loaded_with(SCALE)
    }

    fn loaded_with(scale: Scale) -> Self {
        let mut heap = TestHeap::new();
        let records = Plain::create(&mut heap).expect("an empty heap");
        let loader = Loader::new(scale, SEED);
        for batch in loader.batches() {
            loader.load(&mut heap, &records, &batch).expect("it is loaded");
        }
        heap.commit();
        Shop { heap, records }
    }

    /// With this many transactions done.
    fn used(transactions: u64) -> Self {
        let (mut shop, desk) = (Shop::loaded(), Desk::new(SCALE, SEED));
        let mut random = Random::new(SEED, 0);
        for date in 2..2 + transactions {
            let warehouse = 1 + random.below(2) as u32;
            let input = desk.draw(&mut random, warehouse, date);
            let done = shop.apply(&input);
            assert_eq!(done.is_err(), input.rolls_back(), "{input:?}: {done:?}");
        }
        shop
    }

    fn apply(&mut self, input: &Input) -> Result<()> {
        let Shop { heap, records } = self;
        heap.run(&mut |tx| input.apply(tx, records, SCALE))
    }

    fn with<T>(&mut self, body: impl FnOnce(&mut Hands<'_>) -> Result<T>) -> T {
        let Shop { heap, records } = self;
        body(&mut Tables { tx: heap, records }).expect("sound tables")
    }

    /// Which conditions do not hold.
    fn violated(&mut self) -> Vec<Condition> {
        let violations = check_consistency(&mut self.heap, &self.records, SCALE);
        let all = violations.expect("rows that can be read");
        let mut conditions: Vec<_> = all.iter().map(|violation| violation.condition).collect();
        conditions.dedup();
        conditions
    }

    /// All fields and members.
    fn contents(&mut self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let contents = std::cell::RefCell::new(BTreeMap::new());
        let mut field = |row: &[u8], field: &[u8], value: &[u8]| {
            contents.borrow_mut().insert([row, b" ", field].concat(), value.to_vec());
        };
        let mut member = |set: &[u8], score: f64, member: &[u8]| {
            let score = score.to_be_bytes().to_vec();
            contents.borrow_mut().insert([set, b" ", member].concat(), score);
        };
        self.records.for_each(&mut self.heap, &mut field, &mut member).expect("sound tables");
        contents.into_inner()
    }
}

/// Reads a field, changes it, and writes it back.
fn change<G: Group>(hands: &mut Hands<'_>, row: Key, change: impl FnOnce(&mut G)) -> Result<()> {
    let mut group: G = hands.get(&row)?;
    change(&mut group);
    hands.put(&row, &group)
}

#[test]
fn consistent_when_loaded() {
    let mut shop = Shop::loaded();
    assert_eq!(check_loaded(&mut shop.heap, &shop.records, SCALE).expect("rows"), []);
    assert_eq!(shop.contents(), Shop::loaded().contents(), "the same seed is the same data");
}

#[test]
fn consistent_after_work() {
    let mut shop = Shop::used(1_000);
    assert_eq!(shop.violated(), []);
    let loaded = check_loaded(&mut shop.heap, &shop.records, SCALE).expect("rows");
    assert!(loaded.iter().all(|violation| violation.condition == Condition::Undelivered));
    assert!(!loaded.is_empty(), "there were deliveries");
}

/// Each kind of damage with all the conditions that it violates.
#[test]
fn every_condition_notices_its_damage() {
    use Condition::*;
    type Damage = fn(&mut Hands<'_>) -> Result<()>;
    let damages: &[(&[Condition], Damage)] = &[
        (&[WarehouseYtd, WarehouseHistory], |hands| {
            change(hands, Key::warehouse(1), |ytd: &mut Ytd| ytd.ytd += 1)
        }),
        (&[WarehouseYtd, DistrictHistory], |hands| {
            change(hands, Key::district(1, 2), |ytd: &mut Ytd| ytd.ytd += 1)
        }),
        (&[WarehouseHistory, DistrictHistory], |hands| {
            change(hands, Key::warehouse(1), |ytd: &mut Ytd| ytd.ytd += 1)?;
            change(hands, Key::district(1, 2), |ytd: &mut Ytd| ytd.ytd += 1)
        }),
        (&[WarehouseHistory, DistrictHistory, Balance], |hands| {
            change(hands, Key::history(2, 1, 3, 1), |paid: &mut Payment| paid.amount += 1)
        }),
        (&[NextOrder], |hands| {
            change(hands, Key::district(2, 1), |next: &mut NextId| next.id += 1)
        }),
        (&[NextOrder], |hands| {
            change(hands, Key::district(2, 1), |next: &mut NextId| next.id -= 1)
        }),
        (&[NewOrders, Carriers], |hands| {
            let new = hands.ids(&Key::new_orders(1, 1))?;
            hands.take(&Key::new_orders(1, 1), new[new.len() / 2]).map(drop)
        }),
        (&[NextOrder, NewOrders, Carriers], |hands| {
            hands.add(&Key::new_orders(1, 1), 1e6, 1_000_000)
        }),
        (&[Lines, OrderLines], |hands| {
            hands.records.remove(hands.tx, &Key::line(1, 1, 1, 1)).map(drop)
        }),
        (&[Lines, OrderLines], |hands| {
            change(hands, Key::order(1, 1, 1), |order: &mut Order| order.lines += 1)
        }),
        (&[OrderLines], |hands| {
            change(hands, Key::order(1, 1, 1), |order: &mut Order| order.lines += 1)?;
            change(hands, Key::order(1, 1, 2), |order: &mut Order| order.lines -= 1)
        }),
        (&[Carriers, DeliveryDates], |hands| {
            change(hands, Key::order(1, 1, 1), |carrier: &mut Carrier| carrier.carrier = 0)
        }),
        (&[Carriers], |hands| {
            let set = Key::new_orders(1, 1);
            let delivered = hands.first(&set)?.expect("a new order") - 1;
            hands.add(&set, delivered.into(), delivered)
        }),
        (&[DeliveryDates], |hands| {
            change(hands, Key::line(1, 1, 1, 2), |line: &mut Delivered| line.date = 0)
        }),
        (&[Balance, Payments], |hands| {
            change(hands, Key::customer(2, 2, 12), |account: &mut Account| account.balance += 1)
        }),
        (&[Payments], |hands| {
            let row = Key::customer(2, 2, 12);
            change(hands, row, |account: &mut Account| account.ytd_payment -= 1)
        }),
        (&[Balance, Payments], |hands| {
            change(hands, Key::line(1, 1, 1, 1), |line: &mut Line| line.amount += 1)
        }),
        (&[Deliveries], |hands| {
            let row = Key::customer(1, 1, 5);
            change(hands, row, |account: &mut Account| account.deliveries += 1)
        }),
        (&[Stocks], |hands| change(hands, Key::stock(2, 7), |level: &mut Level| level.orders += 1)),
        (&[Stocks], |hands| change(hands, Key::stock(2, 7), |level: &mut Level| level.ytd += 1)),
        (&[Stocks], |hands| change(hands, Key::stock(2, 7), |level: &mut Level| level.remote += 1)),
        (&[Orders], |hands| {
            let order: Order = hands.get(&Key::order(1, 1, 3))?;
            let customer = order.customer;
            hands.records.remove(hands.tx, &Key::order(1, 1, 3))?;
            hands.take(&Key::orders_of(1, 1, customer), 3)?;
            (1..=order.lines.into()).try_for_each(|number| {
                hands.records.remove(hands.tx, &Key::line(1, 1, 3, number)).map(drop)
            })
        }),
        // The remains of a rolled-back order.
        (&[NextOrder, Lines, Carriers, OrderLines, Orders], |hands| {
            let next: NextId = hands.get(&Key::district(2, 2))?;
            let mut line: Line = hands.get(&Key::line(2, 2, 1, 1))?;
            line.quantity = 0;
            let fields = [line.field(), Delivered { date: 0 }.field()];
            hands.insert(&Key::line(2, 2, next.id, 1), &fields)?;
            // So that only the line tells.
            change(hands, Key::stock(2, 1), |level: &mut Level| level.orders += 1)
        }),
        (&[Rows], |hands| {
            let order: Order = hands.get(&Key::order(1, 1, 3))?;
            hands.take(&Key::orders_of(1, 1, order.customer), 3).map(drop)
        }),
        (&[Rows], |hands| {
            let info: CustomerInfo = hands.get(&Key::customer(1, 2, 3))?;
            let set = Key::named(1, 2, &info.last);
            hands.records.take(hands.tx, &set, &name_member(&info.first, 3)).map(drop)
        }),
        (&[Stocks, Rows], |hands| hands.records.remove(hands.tx, &Key::stock(1, 29)).map(drop)),
        (&[WarehouseHistory, DistrictHistory, Balance, Rows], |hands| {
            hands.records.remove(hands.tx, &Key::history(1, 1, 1, 1)).map(drop)
        }),
        (&[WarehouseHistory, DistrictHistory, Balance, Rows], |hands| {
            let row = Key::customer(1, 1, 5);
            change(hands, row, |account: &mut Account| account.payments -= 1)
        }),
    ];
    let mut shop = Shop::used(60);
    assert_eq!(shop.violated(), []);
    for (number, (expected, damage)) in damages.iter().enumerate() {
        shop.with(damage);
        assert_eq!(shop.violated(), *expected, "damage {number}");
        shop.heap.abort();
        assert_eq!(shop.violated(), [], "damage {number} is undone");
    }
}

#[test]
fn right_after_the_load_the_last_orders_are_new() {
    let mut shop = Shop::loaded();
    let input = input::Delivery { warehouse: 1, carrier: 3, date: 9 };
    assert_eq!(shop.with(|hands| delivery::run(hands, &input, 2)), 2);
    assert_eq!(shop.violated(), []);
    let violations = check_loaded(&mut shop.heap, &shop.records, SCALE).expect("rows");
    let found: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("condition 11 does not hold: district 1:1"), "{found:?}");
}

fn an_order(lines: Vec<Wanted>, rolls_back: bool) -> NewOrder {
    NewOrder { warehouse: 1, district: 2, customer: 7, date: 99, lines, rolls_back }
}

#[test]
fn an_order_is_what_was_ordered() {
    let mut shop = Shop::loaded();
    let far = Wanted { item: 3, supply: 2, quantity: 4 };
    let near = Wanted { item: 8, supply: 1, quantity: 10 };
    let before: Level = shop.with(|hands| hands.get(&Key::stock(2, 3)));
    let input = an_order(vec![near, far], false);
    let ordered = shop.with(|hands| new_order::run(hands, &input));
    assert_eq!(ordered.order, 13);
    assert!(ordered.total > 0 && ordered.brands.len() == 2);
    let after: Level = shop.with(|hands| hands.get(&Key::stock(2, 3)));
    assert_eq!((after.ytd, after.orders, after.remote), (4, 1, 1));
    let expected =
        if before.quantity >= 14 { before.quantity - 4 } else { before.quantity + 91 - 4 };
    assert_eq!(after.quantity, expected);
    let row: Order = shop.with(|hands| hands.get(&Key::order(1, 2, 13)));
    assert_eq!(row, Order { customer: 7, date: 99, lines: 2, all_local: 0 });
    let asked = input::OrderStatus { warehouse: 1, district: 2, who: Who::Number(7) };
    let status = shop.with(|hands| order_status::run(hands, &asked));
    let newest = status.order.expect("an order");
    assert_eq!((newest.id, newest.carrier, status.balance), (13, 0, -1000));
    let found: Vec<_> = newest.lines.iter().map(|(line, _)| (line.item, line.supply)).collect();
    assert_eq!(found, [(8, 1), (3, 2)]);
    assert_eq!(shop.violated(), []);
}

#[test]
fn an_order_of_no_item_leaves_nothing() {
    let mut shop = Shop::used(50);
    let before = shop.contents();
    let wanted = |item| Wanted { item, supply: 1, quantity: 1 };
    let lines = vec![wanted(1), wanted(2), wanted(31)];
    let refused = shop.apply(&Input::NewOrder(an_order(lines, true)));
    assert!(matches!(refused, Err(Error::Aborted(_))), "{refused:?}");
    assert_eq!(shop.contents(), before);
}

#[test]
fn the_customer_in_the_middle_pays() {
    let mut shop = Shop::loaded();
    let last = *b"BARBARBAR       ";
    shop.with(|hands| {
        let set = Key::named(1, 1, &last);
        // With the first of the loaded ones, four: the second by first name is meant.
        for (first, customer) in [("AAA", 5), ("~~A", 3), ("~~B", 2)] {
            let first = super::draw::fixed(first);
            hands.records.add(hands.tx, &set, 0.0, &name_member(&first, customer))?;
        }
        assert_eq!(payment::find_customer(hands, 1, 1, Who::Name(last))?, 1);
        Ok(())
    });
    shop.heap.abort();
    let input = input::Payment {
        warehouse: 2,
        district: 1,
        customer_warehouse: 1,
        customer_district: 2,
        who: Who::Name(last),
        amount: 12_345,
        date: 5,
    };
    assert_eq!(shop.with(|hands| payment::run(hands, &input)), -13_345);
    let account: Account = shop.with(|hands| hands.get(&Key::customer(1, 2, 1)));
    assert_eq!((account.ytd_payment, account.payments), (13_345, 2));
    let paid: Payment = shop.with(|hands| hands.get(&Key::history(1, 2, 1, 2)));
    assert_eq!((paid.warehouse, paid.district, paid.amount), (2, 1, 12_345));
    assert_eq!(shop.violated(), []);
}

#[test]
fn the_oldest_orders_are_delivered_until_there_are_none() {
    let mut shop = Shop::loaded();
    for round in 0..6 {
        let input = input::Delivery { warehouse: 2, carrier: 4, date: 7 };
        let delivered = shop.with(|hands| delivery::run(hands, &input, 2));
        assert_eq!(delivered, if round < 4 { 2 } else { 0 });
        let next = shop.with(|hands| hands.first(&Key::new_orders(2, 1)));
        assert_eq!(next, (round < 3).then_some(10 + round));
        assert_eq!(shop.violated(), []);
    }
    let customer = shop.with(|hands| hands.get::<Order>(&Key::order(2, 1, 9))).customer;
    let account: Account = shop.with(|hands| hands.get(&Key::customer(2, 1, customer)));
    assert!(account.deliveries == 1 && account.balance > -1000);
}

#[test]
fn items_that_are_nearly_sold_out_count_once() {
    let mut shop = Shop::loaded();
    let input = input::StockLevel { warehouse: 1, district: 1, threshold: 20 };
    shop.with(|hands| {
        for item in 1..=30 {
            change(hands, Key::stock(1, item), |level: &mut Level| level.quantity = 20)?;
        }
        assert_eq!(stock_level::run(hands, &input)?, 0);
        let mut items = std::collections::BTreeSet::new();
        for order in 1..=12 {
            let row: Order = hands.get(&Key::order(1, 1, order))?;
            for number in 1..=row.lines.into() {
                items.insert(hands.get::<Line>(&Key::line(1, 1, order, number))?.item);
            }
        }
        for item in 1..=30 {
            change(hands, Key::stock(1, item), |level: &mut Level| level.quantity = 19)?;
        }
        assert_eq!(stock_level::run(hands, &input)?, items.len() as u32);
        Ok(())
    });
}

#[test]
fn threads_share_warehouses() {
    let served = |threads, warehouses| -> Vec<Vec<u32>> {
        let of = |thread| {
            let random = Random::new(1, 0);
            let mut share = Share { thread, threads, operations: 0, random };
            let scale = Scale::small(warehouses);
            let mut all: Vec<u32> = (0..200).map(|_| warehouse_of(&mut share, scale)).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        (0..threads).map(of).collect()
    };
    assert_eq!(served(3, 2), [[1], [2], [1]]);
    assert_eq!(served(2, 5), [vec![1, 3, 5], vec![2, 4]]);
}

#[test]
fn rows_are_used_once_by_a_transaction() {
    let reuse = |operations| {
        let workload = Tpcc::<Plain>::new(SCALE, SEED).expect("a workload");
        let memory = Arc::new(Ram::new(64 << 20));
        let format =
            Format { limit: memory.limit(), log: None, id: 1, requires: None, checksums: false };
        let heap = Heap::<_, Volatile<_>>::create(memory, format).expect("an empty heap");
        let mut session = heap.session().expect("a session");
        workload.reuse(&mut session, operations, 3, &Progress::default()).expect("figures")
    };
    let none = reuse(0);
    assert_eq!(none.never, none.objects());
    let some = reuse(200);
    assert_eq!(some, reuse(200));
    assert!(some.objects() > none.objects() && some.once > 0 && some.more > 0, "{some:?}");
}
