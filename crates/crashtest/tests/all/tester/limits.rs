//! The tester keeps the number of possible states within its limits.

use perdura_crashtest::runner::find;
use perdura_crashtest::{Budget, Case, Points, Watcher};
use perdura_memory::Domain;

/// Of commits that may each be there or not, there are never more than the tester can try in all combinations.
#[test]
fn few_transactions_are_waited_for() {
    let runner = find("ccstm", "sps").expect("an engine and a structure");
    for domain in [Domain::Media, Domain::Transient] {
        let answers = Some("0/1".parse().expect("answers"));
        let (points, cores) = (Points::Random(4), 4);
        let case = Case { domain, answers, points, cores, operations: 30, ..Case::default() };
        let budget = Budget { images: 4, ..Budget::default() };
        let explored = runner.explore(&case, budget, &Watcher::default());
        assert!(explored.expect("no failure").images > 0);
    }
}
