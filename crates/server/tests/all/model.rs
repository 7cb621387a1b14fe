//! Random commands on sets and lists against the standard library's own, over restarts of the server.

use crate::common::{Client, ENGINE, Random, Running, encode, show};
use perdura_testing::{seeds, times};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a key should hold.
#[derive(Clone, Debug)]
enum Value {
    Set(BTreeSet<String>),
    List(VecDeque<String>),
}

const WRONG: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

struct Model {
    keys: BTreeMap<String, Value>,
}

impl Model {
    /// The set of a key: none if there is no key.
    fn set(&self, key: &str) -> Result<BTreeSet<String>, String> {
        match self.keys.get(key) {
            None => Ok(BTreeSet::new()),
            Some(Value::Set(set)) => Ok(set.clone()),
            Some(Value::List(_)) => Err(WRONG.to_owned()),
        }
    }

    fn list(&self, key: &str) -> Result<VecDeque<String>, String> {
        match self.keys.get(key) {
            None => Ok(VecDeque::new()),
            Some(Value::List(list)) => Ok(list.clone()),
            Some(Value::Set(_)) => Err(WRONG.to_owned()),
        }
    }

    fn put_set(&mut self, key: &str, set: BTreeSet<String>) {
        match set.is_empty() {
            true => drop(self.keys.remove(key)),
            false => drop(self.keys.insert(key.to_owned(), Value::Set(set))),
        }
    }

    fn put_list(&mut self, key: &str, list: VecDeque<String>) {
        match list.is_empty() {
            true => drop(self.keys.remove(key)),
            false => drop(self.keys.insert(key.to_owned(), Value::List(list))),
        }
    }

    /// Does a command; its reply, arrays of sets in order.
    fn perform(&mut self, args: &[String]) -> String {
        self.reply(args).unwrap_or_else(|error| error)
    }

    fn reply(&mut self, args: &[String]) -> Result<String, String> {
        let shown = |items: &mut dyn Iterator<Item = &String>| {
            format!("[{}]", items.cloned().collect::<Vec<_>>().join(" "))
        };
        let key = args[1].as_str();
        let number = |at: usize| args[at].parse::<i64>().expect("a number");
        let place = |number: i64, len: usize| if number < 0 { number + len as i64 } else { number };
        match args[0].as_str() {
            "SADD" => {
                let mut set = self.set(key)?;
                let before = set.len();
                set.extend(args[2..].iter().cloned());
                let added = set.len() - before;
                self.put_set(key, set);
                Ok(added.to_string())
            }
            "SREM" => {
                let mut set = self.set(key)?;
                let gone = args[2..].iter().filter(|member| set.remove(*member)).count();
                self.put_set(key, set);
                Ok(gone.to_string())
            }
            "SISMEMBER" => Ok(u8::from(self.set(key)?.contains(&args[2])).to_string()),
            "SMEMBERS" => Ok(shown(&mut self.set(key)?.iter())),
            "SCARD" => Ok(self.set(key)?.len().to_string()),
            "SINTER" => {
                let (first, second) = (self.set(key)?, self.set(&args[2])?);
                Ok(shown(&mut first.intersection(&second)))
            }
            "SDIFF" => {
                let (first, second) = (self.set(key)?, self.set(&args[2])?);
                Ok(shown(&mut first.difference(&second)))
            }
            "SUNIONSTORE" | "SDIFFSTORE" | "SINTERSTORE" => {
                let (first, second) = (self.set(&args[2])?, self.set(&args[3])?);
                let result: BTreeSet<String> = match args[0].as_bytes()[1] {
                    b'U' => &first | &second,
                    b'D' => &first - &second,
                    _ => &first & &second,
                };
                let len = result.len();
                self.put_set(key, result);
                Ok(len.to_string())
            }
            "SMOVE" => {
                // A set that is not there is looked for first, as in Redis.
                let mut from = self.set(key)?;
                if from.is_empty() {
                    return Ok("0".to_owned());
                }
                let mut to = self.set(&args[2])?;
                let there = from.contains(&args[3]);
                if there && key != args[2] {
                    from.remove(&args[3]);
                    to.insert(args[3].clone());
                    self.put_set(key, from);
                    self.put_set(&args[2], to);
                }
                Ok(u8::from(there).to_string())
            }
            "LPUSH" | "RPUSH" => {
                let mut list = self.list(key)?;
                for element in &args[2..] {
                    match args[0].as_str() {
                        "LPUSH" => list.push_front(element.clone()),
                        _ => list.push_back(element.clone()),
                    }
                }
                let len = list.len();
                self.put_list(key, list);
                Ok(len.to_string())
            }
            "LPOP" | "RPOP" => {
                let mut list = self.list(key)?;
                if list.is_empty() {
                    return Ok("nil".to_owned());
                }
                let mut popped = Vec::new();
                while popped.len() < number(2) as usize
                    && let Some(element) =
                        if args[0] == "LPOP" { list.pop_front() } else { list.pop_back() }
                {
                    popped.push(element);
                }
                self.put_list(key, list);
                Ok(shown(&mut popped.iter()))
            }
            "LLEN" => Ok(self.list(key)?.len().to_string()),
            "LRANGE" | "LTRIM" => {
                let list = self.list(key)?;
                let (start, stop) = (place(number(2), list.len()), place(number(3), list.len()));
                let inside = |at: usize| (start..=stop).contains(&(at as i64));
                let kept: VecDeque<String> = list
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| inside(*at))
                    .map(|(_, element)| element.clone())
                    .collect();
                if args[0] == "LRANGE" {
                    return Ok(shown(&mut kept.iter()));
                }
                self.put_list(key, kept);
                Ok("OK".to_owned())
            }
            "LINDEX" => {
                let list = self.list(key)?;
                let at = usize::try_from(place(number(2), list.len()));
                let element = at.ok().and_then(|at| list.get(at));
                Ok(element.cloned().unwrap_or_else(|| "nil".to_owned()))
            }
            "LSET" => {
                let mut list = self.list(key)?;
                if list.is_empty() {
                    return Err("ERR no such key".to_owned());
                }
                let at = usize::try_from(place(number(2), list.len()));
                let element = at.ok().and_then(|at| list.get_mut(at));
                *element.ok_or("ERR index out of range")? = args[3].clone();
                self.put_list(key, list);
                Ok("OK".to_owned())
            }
            "LINSERT" => {
                let mut list = self.list(key)?;
                if list.is_empty() {
                    return Ok("0".to_owned());
                }
                let Some(at) = list.iter().position(|one| *one == args[3]) else {
                    return Ok("-1".to_owned());
                };
                list.insert(at + usize::from(args[2] == "AFTER"), args[4].clone());
                let len = list.len();
                self.put_list(key, list);
                Ok(len.to_string())
            }
            "LREM" => {
                let (mut list, count) = (self.list(key)?, number(2));
                let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
                let mut gone = 0;
                while gone < most {
                    let equals = |one: &String| *one == args[3];
                    let mut places = list.iter();
                    let found = match count < 0 {
                        true => places.rposition(equals),
                        false => places.position(equals),
                    };
                    let Some(at) = found else { break };
                    list.remove(at);
                    gone += 1;
                }
                self.put_list(key, list);
                Ok(gone.to_string())
            }
            "LMOVE" => {
                let mut from = self.list(key)?;
                if from.is_empty() {
                    return Ok("nil".to_owned());
                }
                self.list(&args[2])?;
                let element = match args[3].as_str() {
                    "LEFT" => from.pop_front(),
                    _ => from.pop_back(),
                };
                self.put_list(key, from);
                let (mut to, element) = (self.list(&args[2])?, element.expect("an element"));
                match args[4].as_str() {
                    "LEFT" => to.push_front(element.clone()),
                    _ => to.push_back(element.clone()),
                }
                self.put_list(&args[2], to);
                Ok(element)
            }
            "DEL" => Ok(u8::from(self.keys.remove(key).is_some()).to_string()),
            other => panic!("{other}"),
        }
    }
}

const TEMPLATES: [&str; 30] = [
    "SADD key item",
    "SADD key item item item",
    "SADD key MANY",
    "SREM key item item",
    "SREM key MANY",
    "SISMEMBER key item",
    "SMEMBERS key",
    "SCARD key",
    "SINTER key key",
    "SDIFF key key",
    "SUNIONSTORE key key key",
    "SDIFFSTORE key key key",
    "SINTERSTORE key key key",
    "SMOVE key key item",
    "LPUSH key item item",
    "LPUSH key MANY",
    "RPUSH key item",
    "RPUSH key MANY",
    "LPOP key count",
    "RPOP key count",
    "LLEN key",
    "LRANGE key place place",
    "LTRIM key place place",
    "LINDEX key place",
    "LSET key place item",
    "LINSERT key AFTER item item",
    "LINSERT key BEFORE item item",
    "LREM key small item",
    "LMOVE key key end end",
    "DEL key",
];

fn words(random: &mut Random) -> Vec<String> {
    let mut args = Vec::new();
    for word in random.pick(&TEMPLATES).split(' ') {
        let item = |random: &mut Random| match random.below(30) {
            0 => format!("long{}", "x".repeat(1000 + random.below(2000))),
            1 => format!("{}{}", random.below(5), "y".repeat(random.below(300))),
            _ => format!("item{}", random.below(40)),
        };
        match word {
            // Sets and lists have names of their own, mostly.
            "key" if args[0] == "DEL" => args.push(format!("key{}", random.below(6))),
            "key" => {
                let other = random.below(40) == 0;
                let is_set = args[0].starts_with('S') != other;
                args.push(format!("key{}", 2 * random.below(3) + usize::from(is_set)));
            }
            "item" => args.push(item(random)),
            "MANY" => {
                let from = random.below(2000);
                args.extend((from..from + 50 + random.below(200)).map(|n| format!("many{n}")));
            }
            "count" => args.push([1, 1, 2, 5, 100][random.below(5)].to_string()),
            "small" => args.push((random.below(7) as i64 - 3).to_string()),
            "place" => args.push((random.below(800) as i64 - 400).to_string()),
            "end" => args.push((*random.pick(&["LEFT", "RIGHT"])).to_owned()),
            literal => args.push(literal.to_owned()),
        }
    }
    args
}

/// A reply in a form in which the order of sets makes no difference.
fn asked(client: &mut Client, args: &[String]) -> String {
    let parts: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
    client.send(&encode(&parts));
    let reply = show(&client.receive().expect("an answer"));
    if !matches!(args[0].as_str(), "SMEMBERS" | "SINTER" | "SDIFF") || !reply.starts_with('[') {
        return reply;
    }
    let mut all: Vec<&str> = reply.trim_matches(['[', ']']).split_whitespace().collect();
    all.sort_unstable();
    format!("[{}]", all.join(" "))
}

#[test]
fn sets_and_lists_are_as_the_standard_library_s_over_restarts() {
    let steps = times(if std::env::var_os(ENGINE).is_some() { 300 } else { 1_500 });
    for seed in seeds(1, 2) {
        println!("PERDURA_TEST_SEED={seed}");
        let (mut random, mut model) = (Random::new(seed), Model { keys: BTreeMap::new() });
        let mut running = Running::start();
        for life in 0..3 {
            let mut client = running.client();
            for step in 0..steps {
                let args = words(&mut random);
                let (ours, expected) = (asked(&mut client, &args), model.perform(&args));
                let short = args.iter().take(6).map(|arg| &arg[..arg.len().min(40)]);
                assert!(
                    ours == expected,
                    "life {life}, step {step}: {:?}\nours:     {:.300}\nexpected: {:.300}",
                    short.collect::<Vec<_>>(),
                    ours,
                    expected
                );
            }
            assert_eq!(running.check().keys, model.keys.len() as u64);
            running = running.restarted();
            let mut client = running.client();
            for key in (0..6).map(|number| format!("key{number}")) {
                for name in ["SMEMBERS", "LRANGE"] {
                    let mut args = vec![name.to_owned(), key.clone()];
                    if name == "LRANGE" {
                        args.extend(["0".to_owned(), "-1".to_owned()]);
                    }
                    let (ours, expected) = (asked(&mut client, &args), model.perform(&args));
                    assert!(ours == expected, "{key} after a restart");
                }
            }
        }
    }
}
