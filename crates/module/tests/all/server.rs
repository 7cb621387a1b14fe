//! Stock servers.

use crate::client::Client;
use std::fs::{File, create_dir_all};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A server, killed when it is dropped.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) folder: PathBuf,
    options: Vec<String>,
    child: Option<Child>,
}

/// A port of its own. That and 10,000 more, where a cluster's nodes talk to each other, are below those that the system
/// gives away.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 11_000 + (std::process::id() % 250) as u16 * 40;
    first + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The library of the module.
pub(crate) fn module() -> PathBuf {
    let own = || {
        let test = std::env::current_exe().expect("this test");
        test.ancestors().nth(1).expect("a folder").join("libperdura_module.so")
    };
    std::env::var_os("PERDURA_MODULE").map_or_else(own, PathBuf::from)
}

/// The output of the host's command line.
pub(crate) fn cli(args: &[&str]) -> (bool, String) {
    let program = std::env::var("PERDURA_REDIS_CLI").unwrap_or_else(|_| "redis-cli".to_owned());
    let output = Command::new(program).args(args).output();
    let output = output.expect("redis-cli: PERDURA_REDIS_CLI says where it is");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

pub(crate) fn program() -> String {
    std::env::var("PERDURA_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

impl Server {
    /// A server with the module, and more options.
    pub(crate) fn with_module(folder: &Path, options: &[&str]) -> Self {
        Self::with_pool(folder, "256M", options)
    }

    /// A server with the module, and a pool of this size.
    pub(crate) fn with_pool(folder: &Path, size: &str, options: &[&str]) -> Self {
        let mut all = vec!["--loadmodule".to_owned(), module().display().to_string()];
        all.extend(["pool", "node.pool", "size", size].map(str::to_owned));
        all.extend(options.iter().map(|option| (*option).to_owned()));
        Self::start(folder, all)
    }

    /// A server without the module.
    pub(crate) fn stock(folder: &Path) -> Self {
        Self::stock_with(folder, &[])
    }

    /// The same with options.
    pub(crate) fn stock_with(folder: &Path, options: &[&str]) -> Self {
        Self::start(folder, options.iter().map(|option| (*option).to_owned()).collect())
    }

    fn start(folder: &Path, options: Vec<String>) -> Self {
        let port = port();
        let folder = folder.join(port.to_string());
        create_dir_all(&folder).expect("a folder");
        let mut server = Server { port, folder, options, child: None };
        server.spawn();
        server.wait();
        server
    }

    /// It is no replica when it is started again.
    pub(crate) fn forget_master(&mut self) {
        if let Some(at) = self.options.iter().position(|option| option == "--replicaof") {
            self.options.drain(at..at + 3);
        }
    }

    /// More options for when it is started again.
    pub(crate) fn add_options(&mut self, options: &[&str]) {
        self.options.extend(options.iter().map(|option| (*option).to_owned()));
    }

    /// Starts it, perhaps once more.
    pub(crate) fn spawn(&mut self) {
        let log = File::options().create(true).append(true).open(self.log()).expect("a log");
        let port = self.port.to_string();
        let child = Command::new(program())
            .args(["--port", &port, "--save", "", "--appendonly", "no"])
            .args(["--repl-diskless-sync-delay", "0", "--enable-module-command", "yes"])
            .args(&self.options)
            .current_dir(&self.folder)
            .stdout(Stdio::from(log.try_clone().expect("a log")))
            .stderr(Stdio::from(log))
            .spawn();
        self.child = Some(child.expect("redis-server: PERDURA_REDIS_SERVER says where it is"));
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// All that it has logged.
    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Returns when it answers.
    pub(crate) fn wait(&mut self) {
        let answers = || {
            let mut client = Client::connect(self.port).ok()?;
            let reply = client.ask(&["ping"]).ok()?;
            (reply.text() == "PONG").then_some(())
        };
        until("a server answers", || std::panic::catch_unwind(answers).ok().flatten().is_some());
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.port).expect("a connection")
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn restart(&mut self) {
        self.spawn();
        self.wait();
    }

    /// Waits for its own end.
    pub(crate) fn ended(&mut self) -> bool {
        let child = self.child.as_mut().expect("it was started");
        until("a server ends", || child.try_wait().expect("a child").is_some());
        !child.wait().expect("a child").success()
    }

    /// A server that does not stay: it is only spawned.
    pub(crate) fn refused(folder: &Path, options: &[&str]) -> String {
        let port = port();
        let folder = folder.join(port.to_string());
        create_dir_all(&folder).expect("a folder");
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = Server { port, folder, options, child: None };
        server.spawn();
        assert!(server.ended(), "it has refused nothing:\n{}", server.logged());
        server.logged()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.logged();
            let tail: Vec<&str> = log.lines().rev().take(25).collect();
            eprintln!("--- {}", self.port);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
        self.kill();
    }
}

/// Returns when it is so; a minute later the test fails.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
