//! Every tree that joins given rows and columns, each once, in an order in which it can be solved.
//!
//! A set of lost blocks is a graph: rows and columns are its vertices, blocks its edges. Checksums
//! can solve for the blocks one after the other exactly if the graph has no cycle: a tree has a
//! leaf, a row or column with one lost block, whose sum gives that block, and so on; the last
//! vertex's sum is left over and shows whether it was the right tree.
//!
//! The trees are counted with Prüfer codes for bipartite graphs: the spanning trees of `a` rows and
//! `b` columns are in bijection with pairs of a sequence of `b - 1` rows and one of `a - 1` columns.
//! Decoding a code removes leaves in the order of solving.

use std::ops::ControlFlow;

/// Solves for the block where `leaf` and `next` meet, from the sum of `leaf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SolveStep<V> {
    pub(super) leaf: V,
    pub(super) next: V,
}

/// Calls `each` with every tree whose vertices are all of `rows` and `columns`.
pub(super) fn spanning<V: Copy>(
    rows: &[V],
    columns: &[V],
    each: &mut impl FnMut(&[SolveStep<V>]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (a, b) = (rows.len(), columns.len());
    if a == 0 || b == 0 {
        return ControlFlow::Continue(());
    }
    let vertices: Vec<V> = rows.iter().chain(columns).copied().collect();
    // Digits below b - 1 name rows, the others columns.
    let mut code = vec![0; a + b - 2];
    let base = |digit: usize| if digit < b - 1 { a } else { b };
    let mut steps = Vec::with_capacity(a + b - 1);
    let mut degrees = vec![0; a + b];
    loop {
        decode(&code, (a, b), &vertices, &mut degrees, &mut steps);
        each(&steps)?;
        let Some(digit) = (0..code.len()).find(|digit| code[*digit] + 1 < base(*digit)) else {
            return ControlFlow::Continue(());
        };
        code[..digit].fill(0);
        code[digit] += 1;
    }
}

fn decode<V: Copy>(
    code: &[usize],
    (a, b): (usize, usize),
    vertices: &[V],
    degrees: &mut [usize],
    steps: &mut Vec<SolveStep<V>>,
) {
    degrees.fill(1);
    code[..b - 1].iter().for_each(|row| degrees[*row] += 1);
    code[b - 1..].iter().for_each(|column| degrees[a + *column] += 1);
    let (mut of_rows, mut of_columns) = (0, b - 1);
    steps.clear();
    for _ in code {
        let leaf = degrees.iter().position(|degree| *degree == 1).expect("a tree has a leaf");
        let next = if leaf < a {
            of_columns += 1;
            a + code[of_columns - 1]
        } else {
            of_rows += 1;
            code[of_rows - 1]
        };
        steps.push(SolveStep { leaf: vertices[leaf], next: vertices[next] });
        degrees[leaf] = 0;
        degrees[next] -= 1;
    }
    let mut last = (0..a + b).filter(|vertex| degrees[*vertex] == 1);
    let (Some(leaf), Some(next)) = (last.next(), last.next()) else {
        unreachable!("the last edge of a tree has two ends");
    };
    steps.push(SolveStep { leaf: vertices[leaf], next: vertices[next] });
}

/// Calls `each` with every way to choose `count` of `items`, in order.
pub(super) fn choices<V: Copy>(
    items: &[V],
    count: usize,
    each: &mut impl FnMut(&[V]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if count > items.len() {
        return ControlFlow::Continue(());
    }
    let mut chosen: Vec<usize> = (0..count).collect();
    loop {
        let choice: Vec<V> = chosen.iter().map(|index| items[*index]).collect();
        each(&choice)?;
        let movable =
            |at: &usize| chosen[*at] + 1 < chosen.get(at + 1).copied().unwrap_or(items.len());
        let Some(at) = (0..count).find(movable) else { return ControlFlow::Continue(()) };
        chosen[at] += 1;
        (0..at).for_each(|index| chosen[index] = index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_tree_comes_once_and_can_be_solved() {
        for a in 1..=4 {
            for b in 1..=4 {
                let (rows, columns): (Vec<usize>, Vec<usize>) =
                    ((0..a).collect(), (10..10 + b).collect());
                let mut seen = BTreeSet::new();
                let end = spanning(&rows, &columns, &mut |steps| {
                    assert_eq!(steps.len(), a + b - 1);
                    for (index, step) in steps.iter().enumerate() {
                        let gone = |other: &SolveStep<usize>| {
                            [other.leaf, other.next].contains(&step.leaf)
                        };
                        assert!(!steps[index + 1..].iter().any(gone), "not a leaf any more");
                        assert_ne!(step.leaf < 10, step.next < 10, "a row and a column");
                    }
                    let edge = |step: &SolveStep<usize>| {
                        (step.leaf.min(step.next), step.leaf.max(step.next))
                    };
                    assert!(seen.insert(steps.iter().map(edge).collect::<BTreeSet<_>>()));
                    ControlFlow::Continue(())
                });
                assert!(end.is_continue());
                // Scoins' formula for the spanning trees of a complete bipartite graph.
                assert_eq!(seen.len(), a.pow(b as u32 - 1) * b.pow(a as u32 - 1));
            }
        }
    }

    #[test]
    fn every_choice_comes_once() {
        let mut seen = BTreeSet::new();
        let _ = choices(&[1, 2, 3, 4, 5], 3, &mut |choice| {
            assert!(seen.insert(choice.to_vec()));
            ControlFlow::Continue(())
        });
        assert_eq!(seen.len(), 10);
        let _ = choices(&[1], 2, &mut |_| unreachable!("there are not so many"));
    }
}
