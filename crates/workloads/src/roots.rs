//! The roots that workloads leave in a pool, for a check of the whole pool.
//!
//! The maps' roots are the heap's own collections; the others have kinds of their own.

use crate::bptree::BpTree;
use crate::hash::Hash;
use crate::pmembench::ctree::CTree;
use crate::pmembench::hashmap_tx::HashmapTx;
use crate::pmembench::{self, PmdkMap};
use crate::rbtree::RbTree;
use crate::sdg::Graph;
use crate::stamp::{bayes, genome, intruder, kmeans, labyrinth, ssca2, vacation, yada};
use crate::toggle::KeySet;
use crate::{churn, overwrite, pages, records, sps, word, ycsb};
use perdura::collections::Visit;
use perdura::{Result, Root, Tx};

/// Checks the data below a workload's root, and reports every block of it to `visit`; false if
/// the root is not a workload's.
///
/// # Errors
/// `Corrupt` if it is damaged; what `visit` returns.
pub fn check_root(tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
    match root.kind {
        sps::KIND | word::KIND => visit(root.at)?,
        overwrite::KIND => overwrite::check_blocks(tx, root.at, visit)?,
        ycsb::KIND => ycsb::check_blocks(tx, root.at, visit)?,
        records::KIND => records::check_blocks(tx, root.at, visit)?,
        churn::KIND => churn::check_blocks(tx, root.at, visit)?,
        pages::KIND => pages::check_blocks(tx, root.at, visit)?,
        vacation::KIND => vacation::check_blocks(tx, root.at, visit)?,
        kmeans::KIND => kmeans::check_blocks(tx, root.at, visit)?,
        ssca2::KIND => ssca2::check_blocks(tx, root.at, visit)?,
        yada::KIND => yada::check_blocks(tx, root.at, visit)?,
        bayes::KIND => bayes::check_blocks(tx, root.at, visit)?,
        genome::KIND => genome::check_blocks(tx, root.at, visit)?,
        labyrinth::KIND => labyrinth::check_blocks(tx, root.at, visit)?,
        intruder::KIND => intruder::check_blocks(tx, root.at, visit)?,
        CTree::KIND => pmembench::check_blocks::<CTree>(tx, root.at, visit)?,
        HashmapTx::KIND => pmembench::check_blocks::<HashmapTx>(tx, root.at, visit)?,
        Graph::KIND => Graph::open(root.at).check(tx, visit, &mut |_, _| Ok(()))?,
        Hash::KIND => Hash::open(root.at).check(tx, visit, &mut |_, _| Ok(()))?,
        RbTree::KIND => RbTree::open(root.at).check(tx, visit, &mut |_, _| Ok(()))?,
        BpTree::KIND => BpTree::open(root.at).check(tx, visit, &mut |_, _| Ok(()))?,
        _ => return Ok(false),
    }
    Ok(true)
}
