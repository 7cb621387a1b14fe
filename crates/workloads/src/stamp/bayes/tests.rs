use super::data::{Data, bits};
use super::net::{Net, VARIABLE};
use super::task::{Kind, Task, View};
use super::{LIKELIHOOD, Parameters, Places, TASKS, check};
use crate::stamp::Input;
use crate::stamp::block::{self, word};
use crate::stamp::list::List;
use crate::{Failure, zeroed};
use perdura::Access;
use perdura::testing::TestHeap;

fn data(parent_percent: u64) -> Data {
    let parameters = Parameters { parent_percent, records: 2_000, ..Parameters::of(Input::Small) };
    Data::drawn(&parameters, 11)
}

/// An empty network, as it is loaded.
fn places(heap: &mut TestHeap, data: &Data) -> Places {
    let variables = data.variables();
    let at = zeroed::allocate(heap, variables * VARIABLE).expect("variables");
    let mut sum = 0;
    for variable in 0..variables {
        let likelihood = data.likelihood(variable, 0);
        heap.damage(at + variable * VARIABLE + 16, likelihood as u64);
        sum += likelihood;
    }
    let root = block::new(heap, [at, variables, sum as u64, 0, 0]).expect("a root");
    let tasks = List(word(root, TASKS));
    Places { root, net: Net { at, variables }, tasks }
}

#[test]
fn parents_make_dependents_likelier() {
    assert_eq!(bits(0b1010_0001).collect::<Vec<_>>(), [0, 5, 7]);
    let data = data(100);
    let mut gains = Vec::new();
    for variable in 0..data.variables() {
        for parent in (0..data.variables()).filter(|parent| *parent != variable) {
            let gain = data.likelihood(variable, 1 << parent) - data.likelihood(variable, 0);
            assert!(gain >= -1, "a parent can only help");
            gains.push(gain);
        }
    }
    assert!(gains.iter().any(|gain| *gain > 3 * data.penalty), "there are edges to learn");
    assert!(gains.iter().filter(|gain| **gain < data.penalty).count() > gains.len() / 2);
}

#[test]
fn a_network_is_learnt_without_circles() {
    let (data, mut heap) = (data(100), TestHeap::new());
    let at = places(&mut heap, &data);
    let (mut gained, mut edges, mut kinds) = (0, 0, [0; 3]);
    loop {
        let mut best: Option<Task> = None;
        for variable in 0..data.variables() {
            let view = View::read(&mut heap, at.net, variable).expect("a view");
            let task = view.best(&data, 3);
            let place = |task: &Task| task.place(data.penalty);
            if let Some(task) = task
                && best.as_ref().is_none_or(|best| place(&task) < place(best))
            {
                best = Some(task);
            }
        }
        let Some(task) = best else { break };
        assert!(task.apply(&mut heap, at.net).expect("a change"));
        assert!(!task.apply(&mut heap, at.net).expect("none"), "it was made of what was before");
        (gained, edges) = (gained + task.gain, edges + task.kind.edges());
        kinds[task.kind as usize] += 1;
        heap.commit();
    }
    assert!(edges > 4 && kinds[0] > 4, "{edges} {kinds:?}");
    let sum = heap.peek(word(at.root, LIKELIHOOD)).wrapping_add(gained as u64);
    heap.damage(word(at.root, LIKELIHOOD), sum);
    heap.damage(word(at.root, LIKELIHOOD + 1), edges as u64);
    let found = check::network(&mut heap, at, &mut |_| Ok(())).expect("a network");
    found.check(&data, 3).expect("a sound network");
    found.check_sums(&data, gained, edges).expect("sums that agree");
    assert!(matches!(found.check_sums(&data, gained, edges + 1), Err(Failure::Wrong(_))));
    assert!(matches!(found.check(&data, 0), Err(Failure::Wrong(_))), "too many parents");
}

#[test]
fn circles_are_refused_and_noticed() {
    let (data, mut heap) = (data(100), TestHeap::new());
    let at = places(&mut heap, &data);
    let insert = |heap: &TestHeap, from, to, parents| Task {
        kind: Kind::Insert,
        from,
        to,
        changes_from: 0,
        changes_to: heap.peek(at.net.at + to * VARIABLE + 24),
        likelihood_from: 0,
        likelihood_to: data.likelihood(to, parents),
        gain: 1,
    };
    for (from, to) in [(0, 1), (1, 2)] {
        let task = insert(&heap, from, to, 1 << from);
        assert!(task.apply(&mut heap, at.net).expect("a change"));
    }
    let back = insert(&heap, 2, 0, 1 << 2);
    assert!(!back.apply(&mut heap, at.net).expect("none"), "a circle");
    let reverse = Task { kind: Kind::Reverse, ..insert(&heap, 1, 2, 0) };
    let reverse = Task { changes_from: 1, likelihood_from: data.likelihood(1, 0b101), ..reverse };
    assert!(reverse.apply(&mut heap, at.net).expect("a change"));
    let verdict = |heap: &mut TestHeap| {
        check::network(heap, at, &mut |_| Ok(())).expect("a network").check(&data, 3)
    };
    verdict(&mut heap).expect("a sound network");
    // An edge that only one end knows, and then a circle.
    at.net.parents(0).insert(&mut heap, 1, 0).expect("an edge");
    assert!(matches!(verdict(&mut heap), Err(Failure::Wrong(_))));
    at.net.children(1).insert(&mut heap, 0, 0).expect("an edge");
    heap.write_word(at.net.at + 16, data.likelihood(0, 0b10) as u64).expect("a write");
    let verdict = verdict(&mut heap);
    assert!(
        matches!(&verdict, Err(Failure::Wrong(what)) if what.contains("circle")),
        "{verdict:?}"
    );
}
