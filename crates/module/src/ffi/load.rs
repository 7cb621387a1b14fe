//! The start: the host loads the module, which opens the pool, and gives the host its keys.

use super::api::{self, Key, RawContext, RawText, Text, host, log};
use super::{NODE, commands, events, filter, guarded, values};
use crate::node::{COPYING, Node};
use crate::settings::Settings;
use perdura_server::Commands;
use redis_module::raw;
use std::ffi::{CStr, c_int};
use std::path::Path;
use std::time::Duration;

/// Called by the host.
///
/// # Safety
/// The host calls it once, on its thread, with a context and arguments that are good until it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    context: RawContext,
    argv: *mut RawText,
    argc: c_int,
) -> c_int {
    let version = raw::REDISMODULE_APIVER_1 as c_int;
    // SAFETY: it is the first call of the binding, with the host's context.
    let begun = unsafe { raw::Export_RedisModule_Init(context, c"perdura".as_ptr(), 1, version) };
    if begun != api::OK {
        // The other one's node is left as it is.
        return guarded(|| {
            log("warning", "a module of the name 'perdura' is loaded already: name it once");
            api::ERR
        });
    }
    guarded(|| match load(context, api::arguments(argv, argc)) {
        Ok(()) => api::OK,
        Err(why) => {
            NODE.set(None);
            log("warning", &why);
            api::ERR
        }
    })
}

fn load(context: RawContext, args: &[RawText]) -> Result<(), String> {
    let missing = api::missing();
    if let Some(name) = missing.first() {
        return Err(format!(
            "this server lacks {name} and {} more functions that the module needs: it takes Redis 7.0 or Valkey 7.2, \
             or a later one",
            missing.len() - 1
        ));
    }
    let args: Vec<&[u8]> = args.iter().map(|arg| api::bytes(*arg)).collect();
    let settings = Settings::parse(&args)?;
    let flags = api::flags(context);
    if flags & api::AOF != 0 {
        return Err("the server has 'appendonly yes', and would apply its file to the pool a second time: the pool is \
                    the durable copy, set 'appendonly no'"
            .to_owned());
    }
    if flags & api::RDB != 0 {
        return Err("the server saves RDB files ('save' is not empty), and would load an old one beside the pool: set \
                    'save \"\"'"
            .to_owned());
    }
    if has_keys(context) {
        return Err(
            "the server has keys already: load the module at the server's start, by 'loadmodule'"
                .to_owned(),
        );
    }
    if let Some(why) = early_replies(
        &api::server_info(context).unwrap_or_default(),
        &api::config(context, c"io-threads").unwrap_or_default(),
    ) {
        return Err(why);
    }
    for name in [c"databases", c"cluster-databases"] {
        let count = api::config(context, name).and_then(|count| count.parse::<u32>().ok());
        if count.is_some_and(|count| count > u32::from(Commands::DATABASES)) {
            return Err(format!(
                "the server has '{} {}', and a pool has 16 databases: set '{0} 16'",
                name.to_string_lossy(),
                count.unwrap_or_default()
            ));
        }
    }
    let left = left_file(context);
    if let Some(name) = left.as_deref().filter(|_| !settings.pool.exists()) {
        // Before a pool is made: at the next start the file would be one that is older than the pool.
        return Err(format!(
            "there is a file {name}, and the pool is new: the module does not load it. Move it away, or, to have its \
             data, start this node as a replica of a server that serves it"
        ));
    }
    let mut node = Node::open(&settings, api::node_id().as_deref())?;
    check_whole(&mut node, &settings, api::is_replica(context))?;
    left.map_or(Ok(()), |name| set_aside(&name))?;
    NODE.set(Some(node));
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED;
    host!(RedisModule_SetModuleOptions(context, options as c_int));
    let known = api::host_commands(context);
    if let Some(name) = renamed(context, &known) {
        return Err(format!(
            "the server has 'rename-command {name}', and the module would not know the command by its new name: use \
             ACL, or rename it to \"\", which takes it away"
        ));
    }
    if !values::register(context)
        || !commands::register(context, &known)
        || !events::subscribe(context)
    {
        return Err("the server has refused a command, a type or an event of the module".to_owned());
    }
    read_options(context);
    let count = give_keys(context);
    filter::prepare(context, &known);
    if host!(RedisModule_RegisterCommandFilter(context, Some(filter::filter), 0)).is_null() {
        return Err("the server has refused the module's filter of commands".to_owned());
    }
    log("notice", &format!("the pool {} is open, with {count} keys", settings.pool.display()));
    Ok(())
}

/// Why a server would send replies before the module's wait, by what its INFO says and its number of threads. From 8.0 on
/// threads of Redis send them by themselves; Valkey, which calls itself Redis 7.2, sends them after the wait.
fn early_replies(info: &str, threads: &str) -> Option<String> {
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"))?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major >= 8 && threads.parse::<u32>().is_ok_and(|threads| threads > 1)).then(|| {
        format!(
            "Redis {} with 'io-threads {threads}' sends replies before what they tell is durable: set 'io-threads 1'",
            version.trim()
        )
    })
}

/// A command that the filter looks at, and that has another name by the host's options.
fn renamed(context: RawContext, known: &[api::HostCommand]) -> Option<&'static str> {
    let is_listed = |name: &str| known.iter().any(|known| known.name == name);
    filter::watched().find(|name| is_listed(name) && !api::has_command(context, name))
}

/// Options of the host that commands follow: forms of values that clients may ask for.
const OPTIONS: [&CStr; 10] = [
    c"hash-max-listpack-entries",
    c"hash-max-listpack-value",
    c"zset-max-listpack-entries",
    c"zset-max-listpack-value",
    c"list-max-listpack-size",
    c"list-compress-depth",
    c"set-max-intset-entries",
    c"stream-node-max-entries",
    c"stream-node-max-bytes",
    c"hll-sparse-max-bytes",
];

/// Reads the host's options.
pub(super) fn read_options(context: RawContext) {
    for name in OPTIONS {
        if let Some(value) = api::config(context, name) {
            super::with(|node| {
                node.set_option(&name.to_string_lossy(), &value);
                Ok(())
            });
        }
    }
    let text = api::config(context, c"busy-reply-threshold");
    let millis = text.and_then(|text| text.parse::<i64>().ok()).unwrap_or(1);
    super::with(|node| {
        node.set_threshold(Duration::from_millis(millis.max(0).unsigned_abs()));
        Ok(())
    });
}

/// Refuses a pool with a part of a master's copy, but for a replica, which takes a new one.
fn check_whole(node: &mut Node, settings: &Settings, is_replica: bool) -> Result<(), String> {
    let marked = node.kept(COPYING).map_err(|error| error.to_string())?.is_some();
    if marked && settings.partial {
        return node.keep(COPYING, None).map_err(|error| error.to_string());
    }
    if marked && !is_replica {
        return Err(format!(
            "the pool {} has a part of a copy: this node was killed while it took its master's keys. Start it as a \
             replica again ('replicaof'), so that it takes all of them, or, if the part is wanted, with the module's \
             argument 'partial'",
            settings.pool.display()
        ));
    }
    Ok(())
}

/// The host's RDB file, if there is one, which the host would load after the module.
fn left_file(context: RawContext) -> Option<String> {
    let name = api::config(context, c"dbfilename").unwrap_or_else(|| "dump.rdb".to_owned());
    Path::new(&name).exists().then_some(name)
}

/// Gives another name to an RDB file that a sync of replicas has left behind: it is older than the pool.
fn set_aside(name: &str) -> Result<(), String> {
    let aside = format!("{name}.aside");
    std::fs::rename(name, &aside)
        .map_err(|error| format!("the file {name} cannot be renamed: {error}"))?;
    log("notice", &format!("the file {name} is older than the pool, and is {aside} now"));
    Ok(())
}

/// Whether the host has keys of its own.
fn has_keys(context: RawContext) -> bool {
    let selects = |db: c_int| host!(RedisModule_SelectDb(context, db)) == api::OK;
    let any = (0..16).any(|db| selects(db) && host!(RedisModule_DbSize(context)) > 0);
    selects(0);
    any
}

/// Gives the host all keys of the pool. Returns how many.
fn give_keys(context: RawContext) -> usize {
    let keys = super::with(|node| node.keys());
    let mut selected = 0;
    for (db, name, state) in &keys {
        if *db != selected {
            host!(RedisModule_SelectDb(context, c_int::from(*db)));
            selected = *db;
        }
        let name = Text::new(name);
        values::adjust(&Key::open(context, name.0), *state);
    }
    host!(RedisModule_SelectDb(context, 0));
    keys.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_with_early_replies_are_known() {
        let info =
            |version| format!("# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n");
        for (version, threads, early) in [
            ("8.0.3", "4", true),
            ("8.2.1", "1", false),
            ("10.0.0", "2", true),
            ("7.4.0", "4", false),
            ("8.0.3", "", false),
            ("unknown", "4", false),
        ] {
            assert_eq!(early_replies(&info(version), threads).is_some(), early, "{version}");
        }
        assert!(early_replies(&info("8.0.3"), "4").unwrap().contains("8.0.3 with 'io-threads 4'"));
        assert_eq!(early_replies("", "4"), None);
    }
}
