//! A pool's lives: a real server on it, loaded, killed, opened again, killed while it recovers.
//!
//! What always holds: the trace and the pool's file agree when a life begins ([`settle`]); the parent's history has
//! every acknowledgement, however the life ended.

mod server;
mod traffic;

use crate::history::{History, Life};
use crate::trace::{Trace, settle};
use crate::{Outcome, Trouble};
use perdura_memory::random::SplitMix64;
use server::{Ended, Server};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The least number of records of opening a pool; a recovery writes more.
const OPENING: u64 = 4;
/// More records than a recovery of such a small log usually writes.
const RECOVERY: u64 = 60;
const TRACE: &str = "trace";
const HISTORY: &str = "history.json";

/// The parameters of runs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The program `perdura`.
    pub program: PathBuf,
    /// The engine's name.
    pub engine: String,
    /// Lives of the server.
    pub lives: usize,
    /// The root of everything that the parent draws; the server's behaviour also depends on time.
    pub seed: u64,
}

/// A run: the operations on the file, and the acknowledgements.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The trace of all lives.
    pub trace: Trace,
    /// The history of all lives.
    pub history: History,
}

impl Recorded {
    /// Reads a run from the folder where [`record`] left it.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(folder: &Path) -> Outcome<Self> {
        let path = folder.join(HISTORY);
        let text = std::fs::read(&path).map_err(Trouble::at(&path))?;
        let history = serde_json::from_slice(&text)
            .map_err(|error| Trouble::new(format!("{}: {error}", path.display())))?;
        Ok(Recorded { trace: Trace::read(&folder.join(TRACE))?, history })
    }

    fn write_history(&self, folder: &Path) -> Outcome {
        let path = folder.join(HISTORY);
        let text = serde_json::to_vec(&self.history)
            .map_err(|error| Trouble::new(format!("{}: {error}", path.display())))?;
        std::fs::write(&path, text).map_err(Trouble::at(&path))
    }
}

/// What ends a life.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The server kills itself after this many records.
    StopAfter(u64),
    /// The server is killed this long after it was ready.
    KillAfter(Duration),
    /// This sync fails; the server is killed when it has refused its clients.
    FailSync(u64),
    /// The server is asked to end.
    Close,
}

impl Fate {
    fn draw(random: &mut SplitMix64, life: usize, lives: usize) -> Self {
        match random.below(20) {
            _ if life + 1 == lives => Fate::Close,
            // The first life creates the pool, which takes a few more records.
            _ if life == 0 => Fate::StopAfter(RECOVERY + random.below(300)),
            0..8 => Fate::StopAfter(OPENING + random.below(RECOVERY)),
            8..12 => Fate::StopAfter(RECOVERY + random.below(400)),
            12..16 => Fate::KillAfter(Duration::from_millis(2 + random.below(120))),
            16..18 => Fate::FailSync(1 + random.below(6)),
            _ => Fate::FailSync(6 + random.below(80)),
        }
    }

    fn words(self) -> String {
        match self {
            Fate::StopAfter(records) => format!("killed after {records} records"),
            Fate::KillAfter(time) => format!("killed {time:?} after it was ready"),
            Fate::FailSync(sync) => format!("its sync {sync} failed, then killed"),
            Fate::Close => "closed".to_owned(),
        }
    }
}

/// The result of a run: an error if, before any power cut, the server itself lost something or did not come back.
pub type Survived = Result<Recorded, String>;

/// Creates a pool in `folder`, which is empty, and leads it through its lives. The trace and the history stay there;
/// the pool is removed. Once `stopped` says so, no further life begins.
///
/// # Errors
/// When a run cannot be made. A loss by the server is no error but a result.
pub fn record(setting: &Setting, folder: &Path, stopped: &dyn Fn() -> bool) -> Outcome<Survived> {
    let (pool, trace) = (folder.join("pool"), folder.join(TRACE));
    let mut random = SplitMix64::new(setting.seed);
    let mut history =
        History { engine: setting.engine.clone(), seed: setting.seed, ..History::default() };
    let mut lost = None;
    for life in 0..setting.lives {
        if life > 0 && stopped() {
            break;
        }
        let fate = Fate::draw(&mut random, life, setting.lives);
        let begun = std::fs::metadata(&trace).map_or(0, |data| data.len());
        history.lives.push(Life { begun, ready: None, end: fate.words() });
        let traffic_seed = random.next();
        match live(setting, folder, &mut history, fate, traffic_seed)? {
            Ended::Killed => {}
            Ended::Lost(what) => lost = Some(format!("in life {life}: {what}")),
        }
        settle(&trace, &pool)?;
        if lost.is_some() {
            break;
        }
    }
    // Everything needed of it is in the trace.
    let _ = std::fs::remove_file(&pool);
    let recorded = Recorded { trace: Trace::read(&trace)?, history };
    recorded.write_history(folder)?;
    Ok(lost.map_or(Ok(recorded), Err))
}

/// One life.
fn live(
    setting: &Setting,
    folder: &Path,
    history: &mut History,
    fate: Fate,
    seed: u64,
) -> Outcome<Ended> {
    let mut server = Server::start(setting, folder, fate)?;
    let Some(address) = server.ready()? else {
        return Ok(server.end(fate));
    };
    let life = history.lives.len() as u32 - 1;
    let trace = folder.join(TRACE);
    history.lives[life as usize].ready = Some(traffic::position(&trace)?);
    let traffic = traffic::Traffic { address: &address, trace: &trace, life, seed };
    let lost = traffic.run(&mut history.connections, |idle| match fate {
        Fate::KillAfter(time) => {
            std::thread::sleep(time);
            server.kill();
        }
        Fate::Close => {
            std::thread::sleep(Duration::from_millis(60));
        }
        Fate::StopAfter(_) | Fate::FailSync(_) => server.wait_while_busy(idle),
    })?;
    Ok(match lost {
        Some(what) => {
            server.kill();
            Ended::Lost(what)
        }
        None => server.end(fate),
    })
}
