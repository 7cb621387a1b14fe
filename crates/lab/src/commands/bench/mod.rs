//! `perdura-lab bench`: one file for each benchmark.

mod churn;
mod idle_reader;
mod limit;
mod map;
mod overwrite;
mod pages;
mod pmembench;
mod readme;
mod sdg;
mod space;
mod sps;
mod stamp;
mod toggle;
mod tpcc;
mod versus;
mod ycsb;

use crate::failure::Outcome;
use clap::Subcommand;
use map::Kind;
use perdura_workloads::bptree::BpTree;
use perdura_workloads::hash::Hash;
use perdura_workloads::pmembench::ctree::CTree;
use perdura_workloads::pmembench::hashmap_tx::HashmapTx;
use perdura_workloads::rbtree::RbTree;
use perdura_workloads::stamp::App;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// YCSB's core workloads A to F, in process
    Ycsb(ycsb::Arguments),
    /// Random swaps in an array of words
    Sps(sps::Arguments),
    /// Keys inserted if absent, deleted if there, in a chained hash table
    Hash(toggle::Arguments),
    /// The same in a red-black tree
    Rbtree(toggle::Arguments),
    /// The same in a B+ tree with nodes of 4 KiB
    Bptree(toggle::Arguments),
    /// Edges inserted if absent, deleted if there, in the graph of SSCA#2
    Sdg(sdg::Arguments),
    /// Rows replaced in pages of 1 KiB, as SQLite writes them
    SqlitePages(pages::Arguments),
    /// TPC-C, in process: five transactions on the nine tables of a wholesaler
    Tpcc(tpcc::Arguments),
    /// Blocks of random sizes allocated, resized and freed
    Churn(churn::Arguments),
    /// What durability costs here: one flushed line and a fence, and the smallest transactions
    Limit(limit::Arguments),
    /// Against libpmemobj, embedded stores and Redis, on the same work in the same run
    Versus(versus::Arguments),
    /// Writers and other readers beside a transaction that reads one value and is idle
    IdleReader(idle_reader::Arguments),
    /// README's figures, into a file of results and from there into README's tables
    Readme(readme::Arguments),
    /// Memory and disk that a key takes, compared with Redis
    Space(space::Arguments),
    /// PMDK's crit-bit tree: keys inserted, removed or looked up, each once
    Ctree(pmembench::Arguments),
    /// PMDK's hash map: keys inserted, removed or looked up, each once
    HashmapTx(pmembench::Arguments),
    /// STAMP: a travel agency
    Vacation(stamp::VacationArguments),
    /// STAMP: points gathered around centres
    Kmeans(stamp::ContendedArguments),
    /// STAMP: the edges of a graph, put together by their targets
    Ssca2(stamp::Arguments),
    /// STAMP: packets put together, and looked at for attacks
    Intruder(stamp::Arguments),
    /// STAMP: a gene put together from segments
    Genome(stamp::Arguments),
    /// STAMP: wires laid in a grid
    Labyrinth(stamp::Arguments),
    /// STAMP: a network of dependencies learnt from records
    Bayes(stamp::Arguments),
    /// STAMP: a mesh of triangles made better
    Yada(stamp::Arguments),
    /// 25 % inserts, 25 % removals and 50 % look-ups on the hash map
    HashMap(map::Arguments),
    /// The same on the ordered map
    OrderedMap(map::Arguments),
    /// Whole values overwritten at random
    Overwrite(overwrite::Arguments),
}

pub(super) fn run(command: Command) -> Outcome {
    match command {
        Command::Ycsb(arguments) => ycsb::run(&arguments),
        Command::Sps(arguments) => sps::run(&arguments),
        Command::Hash(arguments) => toggle::run::<Hash>(&arguments),
        Command::Rbtree(arguments) => toggle::run::<RbTree>(&arguments),
        Command::Bptree(arguments) => toggle::run::<BpTree>(&arguments),
        Command::Sdg(arguments) => sdg::run(&arguments),
        Command::SqlitePages(arguments) => pages::run(&arguments),
        Command::Tpcc(arguments) => tpcc::run(&arguments),
        Command::Churn(arguments) => churn::run(&arguments),
        Command::Limit(arguments) => limit::run(&arguments),
        Command::Versus(arguments) => versus::run(&arguments),
        Command::IdleReader(arguments) => idle_reader::run(&arguments),
        Command::Readme(arguments) => readme::run(&arguments),
        Command::Space(arguments) => space::run(&arguments),
        Command::Ctree(arguments) => pmembench::run::<CTree>(&arguments),
        Command::HashmapTx(arguments) => pmembench::run::<HashmapTx>(&arguments),
        Command::Vacation(arguments) => stamp::vacation(&arguments),
        Command::Kmeans(arguments) => stamp::kmeans(&arguments),
        Command::Ssca2(arguments) => stamp::run(App::Ssca2, None, &arguments),
        Command::Intruder(arguments) => stamp::run(App::Intruder, None, &arguments),
        Command::Genome(arguments) => stamp::run(App::Genome, None, &arguments),
        Command::Bayes(arguments) => stamp::run(App::Bayes, None, &arguments),
        Command::Yada(arguments) => stamp::run(App::Yada, None, &arguments),
        Command::Labyrinth(arguments) => stamp::run(App::Labyrinth, None, &arguments),
        Command::HashMap(arguments) => map::run(&arguments, Kind::Hash),
        Command::OrderedMap(arguments) => map::run(&arguments, Kind::Ordered),
        Command::Overwrite(arguments) => overwrite::run(&arguments),
    }
}
