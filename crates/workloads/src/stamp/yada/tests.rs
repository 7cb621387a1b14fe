use super::check;
use super::geometry::{Bound, Point, SIDE, centre, encroaches, is_in_circle, turn};
use super::mesh::Mesh;
use super::{Parameters, Yada, draw};
use crate::Failure;
use crate::stamp::Input;
use crate::stamp::block;
use perdura::testing::TestHeap;

fn point(x: i64, y: i64) -> Point {
    Point { x, y }
}

#[test]
fn circles_and_angles_are_exact() {
    let corners = [point(0, 0), point(10, 0), point(0, 10)];
    assert_eq!(turn(corners[0], corners[1], corners[2]), 100);
    assert_eq!(centre(corners), (5, 5));
    assert!(is_in_circle(corners, point(9, 9)) && !is_in_circle(corners, point(10, 10)), "on it");
    assert!(encroaches(point(5, 5), corners[0], corners[1]));
    assert!(!encroaches(point(5, 6), corners[0], corners[1]));
    let wide = [point(0, 0), point(SIDE, 0), point(SIDE / 2, SIDE / 5)];
    let angle = 0.4f64.atan().to_degrees();
    assert!(Bound::degrees(angle + 0.001).is_bad(wide));
    assert!(!Bound::degrees(angle - 0.001).is_bad(wide));
}

fn mesh(heap: &mut TestHeap, points: &[Point]) -> Mesh {
    let root = block::new(heap, [0, 0]).expect("a root");
    let mesh = Mesh::create(heap, root).expect("a mesh");
    let mut near = heap.peek(root);
    for point in points {
        near = mesh.insert(heap, near, *point).expect("a place for the point");
        heap.commit();
    }
    mesh
}

#[test]
fn points_are_triangulated() {
    let mut points = draw(150, 3);
    // On the sides, and on a line with others.
    points.extend(
        [(1, 0), (2, 0), (0, 3), (4, 4), (1, 4), (2, 2), (3, 3)]
            .map(|(x, y)| point(x * SIDE / 4, y * SIDE / 4)),
    );
    points.retain(|point| *point != self::point(SIDE, SIDE));
    let mut heap = TestHeap::new();
    let mesh = mesh(&mut heap, &points);
    let mut blocks = Vec::new();
    let all = check::triangles(&mut heap, mesh.root, &mut |at| {
        blocks.push(at);
        Ok(())
    });
    check::mesh(&all.expect("triangles"), &points).expect("a sound mesh");
    blocks.push(mesh.root);
    blocks.sort_unstable();
    assert_eq!(blocks, heap.live_blocks(), "a leak");
}

#[test]
fn faults_of_a_mesh_are_noticed() {
    let (points, mut heap) = (draw(40, 5), TestHeap::new());
    let mesh = mesh(&mut heap, &points);
    let all = |heap: &mut TestHeap| check::triangles(heap, mesh.root, &mut |_| Ok(()));
    let whole = all(&mut heap).expect("triangles");
    check::mesh(&whole, &points).expect("a sound mesh");
    assert!(check::refined(&whole, Bound::degrees(20.0)).is_err(), "as it was drawn");
    for triangle in whole.keys() {
        // A corner that is elsewhere, a neighbour that is none, a state of one that is gone.
        for (field, value) in [(0, point(5, 7).word()), (3, mesh.root), (3, 0), (6, 0)] {
            let at = triangle + field * 8;
            let was = heap.peek(at);
            if was == value {
                continue;
            }
            heap.damage(at, value);
            let verdict = all(&mut heap).map(|all| check::mesh(&all, &points));
            assert!(!matches!(verdict, Ok(Ok(()))), "{field} {value:#x}");
            heap.damage(at, was);
        }
    }
    let missing = [points.as_slice(), &[point(9, 9)]].concat();
    assert!(matches!(check::mesh(&whole, &missing), Err(Failure::Wrong(_))));
}

#[test]
fn nothing_gets_stuck() {
    for seed in 0..4 {
        let parameters = Parameters { points: 120, ..Parameters::of(Input::Small) };
        let yada = Yada::new(parameters, seed).expect("valid parameters");
        let mut heap = TestHeap::new();
        let mesh = mesh(&mut heap, &yada.points);
        let read = |heap: &mut TestHeap| {
            check::triangles(heap, mesh.root, &mut |_| Ok(())).expect("triangles")
        };
        let is_bad = |triangle: &&super::Triangle| yada.bound.is_bad(triangle.corners);
        let mut steps = 0;
        while let Some(bad) = read(&mut heap).values().find(is_bad).copied() {
            let mut made = Vec::new();
            mesh.refine(&mut heap, bad.at, yada.bound, &mut made).expect("a better mesh");
            heap.commit();
            // Nothing is queued here.
            for at in made.iter().map(|made| made + 48) {
                heap.damage(at, heap.peek(at) & !super::QUEUED);
            }
            steps += 1;
            assert!(steps < 5_000, "it does not end");
        }
        let all = read(&mut heap);
        check::mesh(&all, &yada.points).expect("a sound mesh");
        assert_eq!(check::refined(&all, yada.bound).expect("a good mesh"), 0);
    }
}
