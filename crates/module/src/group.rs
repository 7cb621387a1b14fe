//! One transaction of the pool for all commands of an EXEC or a script.
//!
//! The host performs them one after the other, and a transaction is a closure. So the closure runs in a coroutine: it
//! takes a job, hands out the result, and goes on when the next job comes; it returns, and commits, when there is none.

use crate::work::Job;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use perdura::{Error, Handle, Result, Ticket};
use perdura_server::{Commands, Performed};
use std::rc::Rc;

type Return = (Handle, Result<Ticket>);

/// An open transaction. The handle is inside until it ends.
pub(crate) struct Group(Coroutine<Option<Job>, Performed, Return, DefaultStack>);

impl Group {
    /// Opens one. It begins with its first job.
    pub(crate) fn begin(commands: Rc<Commands>, mut handle: Handle, stack: DefaultStack) -> Self {
        Group(Coroutine::with_stack(stack, move |yielder, first: Option<Job>| {
            let (mut next, mut runs) = (first, 0);
            let done = handle.submit(|tx| {
                runs += 1;
                if runs > 1 {
                    // Its results have been used. The pool has one writer, so that nothing is in conflict.
                    return Err(Error::Aborted("the transaction was to be run again".to_owned()));
                }
                commands.begin();
                while let Some(job) = next.take() {
                    let done = job.run(&commands, tx)?;
                    next = yielder.suspend(done);
                }
                Ok(())
            });
            commands.end(&done);
            (handle, done.map(|((), ticket)| ticket))
        }))
    }

    /// Does one more job. If that fails, the transaction is over, and none of it is done.
    pub(crate) fn run(&mut self, job: Job) -> Result<Performed> {
        match self.0.resume(Some(job)) {
            CoroutineResult::Yield(done) => Ok(done),
            CoroutineResult::Return((_, Err(error))) => Err(error),
            CoroutineResult::Return((_, Ok(_))) => unreachable!("it ends only without a job"),
        }
    }

    /// Commits. Returns the handle, the stack for the next one, and the ticket of the transaction's durability.
    pub(crate) fn end(mut self) -> (Handle, DefaultStack, Result<Ticket>) {
        match self.0.resume(None) {
            CoroutineResult::Yield(_) => unreachable!("it yields only after a job"),
            CoroutineResult::Return((handle, done)) => (handle, self.0.into_stack(), done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::{EngineKind, Options, Pool};
    use perdura_server::Request;

    #[test]
    fn all_of_a_group_or_nothing_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let options = Options::new().engine(EngineKind::CcStm).size(16 << 20);
        let pool = options.create(&path).unwrap();
        let mut handle = pool.session().unwrap();
        let commands = Rc::new(Commands::open(&pool, &mut handle).unwrap());
        let job = |words: &str| Job::Command(Request::new(words.split(' ').map(str::as_bytes)));
        let count = |pool: &Pool| {
            let pool = pool.clone();
            let seen = std::thread::spawn(move || {
                let mut handle = pool.session().unwrap();
                let commands = Commands::open(&pool, &mut handle).unwrap();
                let request = Request::new([b"exists".as_slice(), b"a", b"b"]);
                commands.perform(&mut handle, &request).unwrap().0.reply
            });
            seen.join().unwrap()
        };
        let mut group = Group::begin(Rc::clone(&commands), handle, DefaultStack::default());
        assert_eq!(group.run(job("set a 1")).unwrap().reply, b"+OK\r\n");
        // One that fails leaves nothing, and the others stay.
        assert_eq!(group.run(job("lpush a 1")).unwrap().reply.first(), Some(&b'-'));
        assert_eq!(group.run(job("incr a")).unwrap().reply, b":2\r\n");
        assert_eq!(group.run(job("set b 1")).unwrap().reply, b"+OK\r\n");
        assert_eq!(count(&pool), b":0\r\n");
        let (mut handle, stack, done) = group.end();
        handle.wait(done.unwrap()).unwrap();
        assert_eq!(count(&pool), b":2\r\n");
        // The next one, on the same stack.
        let mut group = Group::begin(commands, handle, stack);
        group.run(job("del a b")).unwrap();
        assert_eq!(count(&pool), b":2\r\n");
        drop(group);
        // It was not ended.
        assert_eq!(count(&pool), b":2\r\n");
    }
}
