//! Rounds, one process after the other: each engine in turn, most processes killed at a random moment.

use super::Round;
use super::audit::audit;
use super::ledger::Ledger;
use super::witness::Told;
use perdura_memory::random::SplitMix64;
use perdura_workloads::Progress;
use serde::Serialize;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// Rounds on one pool, before a new one is made.
const ROUNDS: u64 = 5;
/// How long after its end a process may still run: others may have the processors.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(2);

/// How to stress.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Engines, which take turns.
    pub engines: Vec<String>,
    /// The persistence domain's name; by default that of the folder's backing.
    pub domain: Option<String>,
    /// The folder for the pools.
    pub folder: PathBuf,
    /// The root of everything random.
    pub seed: u64,
    /// Threads of each process.
    pub threads: usize,
    /// How long it takes in all; each engine has a round in any case.
    pub time: Duration,
    /// The length of a round that is not cut short, milliseconds.
    pub round_millis: u64,
}

/// The rounds of an engine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EngineReport {
    /// Its name.
    pub engine: String,
    /// Processes.
    pub rounds: u64,
    /// Of these, killed.
    pub killed: u64,
    /// Operations that were committed, and found after opening the pool again.
    pub operations: u64,
    /// Times that operations were reported as durable.
    pub acknowledged: u64,
    /// Reading transactions.
    pub reads: u64,
}

/// The findings of all rounds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StressReport {
    /// By engine.
    pub engines: Vec<EngineReport>,
    /// The first thing that was wrong.
    pub failure: Option<StressFailure>,
}

/// A fault.
#[derive(Clone, Debug, Serialize)]
pub struct StressFailure {
    /// The round.
    pub round: Round,
    /// Its number, from 0, of all rounds.
    pub number: u64,
    /// Its description.
    pub what: String,
}

/// A pool of an engine, and its required contents.
struct Account {
    path: PathBuf,
    seed: u64,
    ledger: Ledger,
    rounds: u64,
}

/// Stresses the engines in turn, until the time is over, something is wrong, or `progress` is stopped. `start` starts a
/// process that calls [`live`](super::live()) with the round, its witness being the standard output, a pipe; what it
/// fails with it writes to the standard error, a pipe too.
///
/// # Errors
/// A failure of the system's: no process could be started.
pub fn run(
    plan: &Plan,
    start: &dyn Fn(&Round) -> std::io::Result<Child>,
    progress: &Progress,
) -> std::io::Result<StressReport> {
    let mut random = SplitMix64::new(plan.seed);
    let begun = Instant::now();
    let mut report = StressReport::default();
    let named =
        |engine: &String| EngineReport { engine: engine.clone(), ..EngineReport::default() };
    report.engines = plan.engines.iter().map(named).collect();
    let mut accounts: Vec<Option<Account>> = plan.engines.iter().map(|_| None).collect();
    for number in 0.. {
        let turn = number as usize % plan.engines.len();
        let enough = begun.elapsed() >= plan.time && number >= plan.engines.len() as u64;
        if enough || progress.is_stopped() {
            break;
        }
        let (seed, pool_seed) = (random.next(), random.next());
        let kill = (random.below(4) != 0).then(|| match random.below(4) {
            0 => random.below(40),
            _ => random.below(plan.round_millis.max(1)),
        });
        let account = match accounts[turn].take().filter(|account| account.rounds < ROUNDS) {
            Some(account) => account,
            None => {
                let path = plan.folder.join(format!("{}.pool", plan.engines[turn]));
                let _ = std::fs::remove_file(&path);
                Account { path, seed: pool_seed, ledger: Ledger::default(), rounds: 0 }
            }
        };
        let account = accounts[turn].insert(account);
        account.rounds += 1;
        let round = Round {
            pool: account.path.clone(),
            engine: plan.engines[turn].clone(),
            domain: plan.domain.clone(),
            seed,
            pool_seed: account.seed,
            threads: plan.threads,
            millis: plan.round_millis,
        };
        let Ended { killed, told, failed } = one(start(&round)?, &round, kill, progress)?;
        let before = account.ledger.operations();
        let first = Told { durable: *account.ledger.counts(), ..Told::default() };
        let mut known = told.clone();
        for (known, before) in known.durable.iter_mut().zip(first.durable) {
            *known = before.max(*known);
        }
        known.times += before;
        let mut what = failed;
        if what.is_none() {
            what = audit(&round, &known, &mut account.ledger).err();
        }
        let row = &mut report.engines[turn];
        row.rounds += 1;
        row.killed += u64::from(killed);
        row.operations += account.ledger.operations() - before;
        row.acknowledged += told.times;
        row.reads += told.reads;
        progress.advance(1);
        if let Some(what) = what {
            report.failure = Some(StressFailure { round, number, what });
            break;
        }
    }
    Ok(report)
}

/// How a process has ended.
struct Ended {
    killed: bool,
    told: Told,
    failed: Option<String>,
}

/// Waits for a process, or kills it after `kill` milliseconds.
fn one(
    mut child: Child,
    round: &Round,
    kill: Option<u64>,
    progress: &Progress,
) -> std::io::Result<Ended> {
    let begun = Instant::now();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let listening = thread::spawn(move || {
        let mut told = Told::default();
        let lines = stdout.into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
        lines.map_while(Result::ok).for_each(|line| told.take(&line));
        told
    });
    let complaining = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.map(|mut pipe| pipe.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    let (mut killed, mut hangs) = (false, false);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let due = kill.is_some_and(|after| begun.elapsed() >= Duration::from_millis(after));
        hangs = begun.elapsed() >= Duration::from_millis(round.millis) + PATIENCE;
        if due || hangs || progress.is_stopped() {
            child.kill()?;
            killed = true;
            break child.wait()?;
        }
        thread::sleep(LOOK);
    };
    let told = listening.join().unwrap_or_default();
    let complaint = complaining.join().unwrap_or_default();
    let failed = match () {
        () if hangs => Some("the process does not end".to_owned()),
        () if killed || status.success() || progress.is_stopped() => None,
        () => Some(format!("{} ({status})", complaint.trim())),
    };
    Ok(Ended { killed, told, failed })
}
