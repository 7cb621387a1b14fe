use super::check;
use super::maze::{Maze, Size};
use super::route::{Reported, Router};
use crate::{Computation, Failure, PrivateAccess, PrivateBuffer};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn maze() -> Maze {
    Maze::drawn(Size { x: 12, y: 10, z: 2 }, 12, 3).expect("valid parameters")
}

/// The grid and the results of one that lays all wires in turn.
fn laid(maze: &Maze) -> (Vec<u64>, Vec<check::Laid>) {
    let mut grid = vec![0; maze.size().cells() as usize];
    for (number, (from, to)) in (1..).zip(maze.wires()) {
        (grid[*from as usize], grid[*to as usize]) = (number, number);
    }
    let (mut router, mut results) =
        (Router::new(maze.size(), Reported::default(), Computation::default()), Vec::new());
    for (number, wire) in (0..).zip(maze.wires()) {
        router.copy_to().copy_from_slice(&grid);
        let way = router.find(*wire).unwrap_or_default();
        way.iter().for_each(|cell| grid[*cell as usize] = number + 1);
        results.push((number, way));
    }
    (grid, results)
}

#[test]
fn wires_are_laid_and_checked() {
    let maze = maze();
    let (grid, results) = laid(&maze);
    let count = results.iter().filter(|(_, way)| !way.is_empty()).count() as u64;
    assert_eq!(check::wires(&maze, &grid, &results).expect("sound wires"), count);
    assert!(count > 6, "{count}");
}

#[test]
fn faults_are_noticed() {
    let maze = maze();
    let (grid, results) = laid(&maze);
    let long = results.iter().position(|(_, way)| way.len() > 4).expect("a long way");
    let spoilt = |spoil: &dyn Fn(&mut Vec<u64>, &mut Vec<check::Laid>)| {
        let (mut grid, mut results) = (grid.clone(), results.clone());
        spoil(&mut grid, &mut results);
        match check::wires(&maze, &grid, &results) {
            Err(Failure::Wrong(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    let gap = spoilt(&|_, results| {
        results[long].1.remove(2);
    });
    assert!(gap.contains("does not lead"), "{gap}");
    let elsewhere = spoilt(&|_, results| results[long].1.truncate(3));
    assert!(elsewhere.contains("does not lead"), "{elsewhere}");
    let lost = spoilt(&|_, results| drop(results.remove(long)));
    assert!(lost.contains("lost"), "{lost}");
    let twice = spoilt(&|_, results| results.push(results[long].clone()));
    assert!(twice.contains("twice"), "{twice}");
    let filled = spoilt(&|grid, results| grid[results[long].1[2] as usize] += 1);
    assert!(filled.contains("other wires"), "{filled}");
    let lazy = spoilt(&|grid, results| {
        let way = std::mem::take(&mut results[long].1);
        way[1..way.len() - 1].iter().for_each(|cell| grid[*cell as usize] = 0);
    });
    assert!(lazy.contains("though there is a way"), "{lazy}");
}

#[test]
fn wires_that_meet_are_noticed() {
    let maze = Maze::of(Size { x: 5, y: 5, z: 1 }, vec![(10, 14), (2, 22)]);
    let ways = [(0, vec![10, 11, 12, 13, 14]), (1, vec![2, 7, 12, 17, 22])];
    let mut grid = vec![0; 25];
    for (number, way) in &ways {
        way.iter().for_each(|cell| grid[*cell as usize] = number + 1);
    }
    let verdict = check::wires(&maze, &grid, &ways);
    assert!(matches!(&verdict, Err(Failure::Wrong(what)) if what.contains("meets")), "{verdict:?}");
}

#[test]
fn ways_are_straight_where_they_can_be() {
    let size = Size { x: 8, y: 8, z: 1 };
    let mut router = Router::new(size, Reported::default(), Computation::default());
    let way = router.find((0, 63)).expect("a way");
    let bends = way.windows(3).filter(|three| three[1] - three[0] != three[2] - three[1]).count();
    assert_eq!((way.len(), bends), (15, 1), "{way:?}");
    for row in 0..8 {
        router.copy_to()[row * 8 + 4] = 9;
    }
    assert_eq!(router.find((0, 63)), None, "a wall");
}

/// The search charges the neighbours of the cells that it has expanded, and of those that the way has.
#[test]
fn expansion_is_charged() {
    let steps = Arc::new(AtomicU64::new(0));
    let charged = steps.clone();
    let charge = move |more| {
        charged.fetch_add(more, Ordering::Relaxed);
    };
    let mut router = Router::new(
        Size { x: 4, y: 1, z: 1 },
        Reported::default(),
        Computation::charged_by(charge),
    );
    assert_eq!(router.find((0, 3)), Some(vec![0, 1, 2, 3]));
    assert_eq!(steps.load(Ordering::Relaxed), (3 + 4) * 6);
}

/// What a search reports of its buffers, by hand. Of four cells in a row it expands three, which have 1 + 2 + 2
/// neighbours, and goes back over three more, with as many:
/// - the copy is stored once as a whole, and each neighbour of an expanded cell is read: 5;
/// - costs are cleared, and given to four cells; read of each expanded cell and its neighbours, 3 + 5, and as many on the
///   way back;
/// - four cells enter the queue and leave it.
#[test]
fn accesses_to_the_buffers_are_reported() {
    type Counts = Arc<Mutex<BTreeMap<(&'static str, PrivateAccess), (u64, u64)>>>;
    let counts = Counts::default();
    let buffer = |name: &'static str| {
        let counts = counts.clone();
        PrivateBuffer::accessed_by(move |at, len, access| {
            assert!(at + len <= 4 * 8, "{name}: {at} + {len}");
            let mut counts = counts.lock().expect("no panic");
            let (count, bytes) = counts.entry((name, access)).or_default();
            (*count, *bytes) = (*count + 1, *bytes + len);
        })
    };
    let reported = Reported { grid: buffer("grid"), costs: buffer("costs"), next: buffer("next") };
    let mut router = Router::new(Size { x: 4, y: 1, z: 1 }, reported, Computation::default());
    assert_eq!(router.find((0, 3)), Some(vec![0, 1, 2, 3]));
    let counted = |name, access| counts.lock().expect("no panic").get(&(name, access)).copied();
    assert_eq!(counted("grid", PrivateAccess::Write), Some((1, 4 * 8)));
    assert_eq!(counted("grid", PrivateAccess::Read), Some((5, 5 * 8)));
    assert_eq!(counted("costs", PrivateAccess::Write), Some((1 + 4, (4 + 4) * 4)));
    assert_eq!(counted("costs", PrivateAccess::Read), Some((2 * (3 + 5), 2 * (3 + 5) * 4)));
    assert_eq!(counted("next", PrivateAccess::Write), Some((4, 4 * 8)));
    assert_eq!(counted("next", PrivateAccess::Value), Some((4, 4 * 8)));
    assert_eq!(counts.lock().expect("no panic").len(), 6);
}
