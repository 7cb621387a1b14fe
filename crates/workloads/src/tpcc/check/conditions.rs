//! The conditions, each a comparison of facts of the survey.

use super::survey::{Customer, District, OrderFacts, Survey};
use super::{Condition, Violation};
use crate::tpcc::Cents;

/// Notes violations.
struct Findings {
    found: Vec<Violation>,
}

impl Findings {
    fn note(&mut self, condition: Condition, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.found.push(Violation { condition, what: what() });
        }
    }
}

impl Survey {
    /// Every violation of the conditions that hold at any time, by the conditions' order.
    pub(in crate::tpcc) fn violations(&self) -> Vec<Violation> {
        let mut findings = Findings { found: self.faults.clone() };
        for (w, warehouse) in (1..).zip(&self.warehouses) {
            let sum = |of: fn(&District) -> Cents| -> i128 {
                warehouse.districts.iter().map(|district| i128::from(of(district))).sum()
            };
            let (ytd, districts) = (warehouse.ytd, sum(|district| district.ytd));
            findings.note(Condition::WarehouseYtd, i128::from(ytd) == districts, || {
                format!("warehouse {w} was paid {ytd} cents, its districts {districts}")
            });
            let paid = sum(|district| district.paid);
            findings.note(Condition::WarehouseHistory, i128::from(ytd) == paid, || {
                format!("warehouse {w} was paid {ytd} cents, by the history {paid}")
            });
            let (stocked, ordered) = (warehouse.stocked, warehouse.ordered);
            findings.note(Condition::Stocks, stocked == ordered, || {
                format!("the stocks of warehouse {w} count {stocked:?}, the lines {ordered:?}")
            });
            for (d, district) in (1..).zip(&warehouse.districts) {
                check_district(district, &format!("{w}:{d}"), &mut findings);
            }
        }
        findings.found.sort_by_key(|violation| violation.condition);
        findings.found
    }

    /// Violations of condition 11, which holds after the load only.
    pub(super) fn undelivered(&self) -> Vec<Violation> {
        let mut findings = Findings { found: Vec::new() };
        let delivered = self.scale.first_new_order() as usize - 1;
        for (w, warehouse) in (1..).zip(&self.warehouses) {
            for (d, district) in (1..).zip(&warehouse.districts) {
                let (orders, new) = (district.orders.len(), district.new_orders.len());
                findings.note(Condition::Undelivered, orders == new + delivered, || {
                    format!("district {w}:{d} has {orders} orders and {new} new ones")
                });
            }
        }
        findings.found
    }
}

fn check_district(district: &District, name: &str, findings: &mut Findings) {
    let (ytd, paid) = (district.ytd, district.paid);
    findings.note(Condition::DistrictHistory, ytd == paid, || {
        format!("district {name} was paid {ytd} cents, by the history {paid}")
    });
    check_numbers(district, name, findings);
    check_lines(district, name, findings);
    for (id, order) in &district.orders {
        check_order(order, district.new_orders.contains(id), &format!("{name}:{id}"), findings);
    }
    for new in &district.new_orders {
        findings.note(Condition::Carriers, district.orders.contains_key(new), || {
            format!("NEW_ORDER:{name} has {new}, and there is no such order")
        });
    }
    for (c, customer) in (1..).zip(&district.customers) {
        check_customer(customer, &format!("{name}:{c}"), findings);
    }
}

/// Of orders and new orders.
fn check_numbers(district: &District, name: &str, findings: &mut Findings) {
    let next = district.next;
    let last = district.orders.last_key_value().map_or(0, |(last, _)| *last);
    findings.note(Condition::NextOrder, next == last.wrapping_add(1), || {
        format!("district {name} has orders up to {last}, the next one shall be {next}")
    });
    // As many numbers as the last one: none is left out.
    let rows = district.orders.values().filter(|order| order.row.is_some()).count();
    findings.note(
        Condition::Orders,
        rows == last as usize && rows == district.orders.len(),
        || format!("district {name} has {rows} orders, with numbers up to {last}"),
    );
    let new = &district.new_orders;
    if let (Some(first_new), Some(last_new)) = (new.first(), new.last()) {
        findings.note(Condition::NextOrder, *last_new == last, || {
            format!("district {name} has orders up to {last}, new ones up to {last_new}")
        });
        let count = new.len();
        findings.note(Condition::NewOrders, (last_new - first_new) as usize + 1 == count, || {
            format!("district {name} has {count} new orders from {first_new} to {last_new}")
        });
    }
}

fn check_lines(district: &District, name: &str, findings: &mut Findings) {
    let orders = district.orders.values();
    let said: u64 = orders.clone().map(|order| u64::from(said_lines(order))).sum();
    let found: u64 = orders.map(|order| u64::from(order.lines)).sum();
    findings.note(Condition::Lines, said == found, || {
        format!("the orders of district {name} should have {said} lines, and have {found}")
    });
}

fn said_lines(order: &OrderFacts) -> u32 {
    order.row.as_ref().map_or(0, |(order, _)| order.lines.into())
}

fn check_order(order: &OrderFacts, is_new: bool, name: &str, findings: &mut Findings) {
    let OrderFacts { lines, delivered_lines, .. } = *order;
    let carrier = order.row.as_ref().map_or(0, |(_, carrier)| *carrier);
    findings.note(Condition::Carriers, (carrier == 0) == is_new, || {
        let new = if is_new { "a" } else { "no" };
        format!("order {name} has the carrier {carrier} (0: none), and is {new} new order")
    });
    let said = said_lines(order);
    findings.note(Condition::OrderLines, said == lines, || {
        format!("order {name} should have {said} lines, and has {lines}")
    });
    let dates = if carrier == 0 { 0 } else { lines };
    findings.note(Condition::DeliveryDates, delivered_lines == dates, || {
        format!(
            "of order {name}, with the carrier {carrier} (0: none), {delivered_lines} of {lines} lines are delivered"
        )
    });
}

fn check_customer(customer: &Customer, name: &str, findings: &mut Findings) {
    let Customer { balance, ytd_payment, paid, delivered, deliveries, delivered_orders, .. } =
        *customer;
    let wide = |cents: Cents| i128::from(cents);
    findings.note(Condition::Balance, wide(balance) == wide(delivered) - wide(paid), || {
        format!("customer {name} has {balance} cents, got {delivered} and paid {paid}")
    });
    let sum = wide(balance) + wide(ytd_payment);
    findings.note(Condition::Payments, sum == wide(delivered), || {
        format!("customer {name} has {balance} cents and paid {ytd_payment}, got {delivered}")
    });
    findings.note(Condition::Deliveries, deliveries == delivered_orders, || {
        format!("customer {name} counts {deliveries} deliveries, the orders {delivered_orders}")
    });
}
