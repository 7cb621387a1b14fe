//! What users may not do. The host looks at the names of the module's commands, so a user who may not `set`, but all
//! else, might by `perdura.set`: the module looks at the names that clients have sent.

use super::api::{self, RawContext, RawText, Text, host};
use std::cell::Cell;

/// Whether some user may not do everything.
#[derive(Clone, Copy, PartialEq)]
enum Rules {
    /// It is to be looked at: until then they may not.
    Unknown,
    None,
    Some,
}

thread_local! {
    static RULES: Cell<Rules> = const { Cell::new(Rules::Unknown) };
}

/// ACL was seen: it may change users.
pub(super) fn changed() {
    RULES.set(Rules::Unknown);
}

/// Looks whether there is a user who may not do everything. The host has read its file of users when its first turn ends.
pub(super) fn look(context: RawContext) {
    if RULES.get() == Rules::Unknown {
        let is_free = api::users(context).is_some_and(|users| {
            users.len() == 1 && users.iter().all(|user| user.ends_with(" ~* &* +@all"))
        });
        // The call has passed the filter.
        RULES.set(if is_free { Rules::None } else { Rules::Some });
    }
}

/// Whether the call's client may perform a command by the name that it has sent, with these arguments. Scripts are not
/// looked at: their client is none that the host would name.
pub(super) fn permit(context: RawContext, name: &[u8], args: &[RawText]) -> bool {
    if RULES.get() == Rules::None {
        return true;
    }
    let user = host!(RedisModule_GetClientUserNameById(context, api::client(context)));
    if user.is_null() {
        return true;
    }
    let name = Text::new(name);
    let mut all = vec![name.0];
    all.extend_from_slice(&args[1..]);
    let found = host!(RedisModule_GetModuleUserFromUserName(user));
    host!(RedisModule_FreeString(context, user));
    if found.is_null() {
        return false;
    }
    let count = all.len() as std::ffi::c_int;
    let done = host!(RedisModule_ACLCheckCommandPermissions(found, all.as_mut_ptr(), count));
    host!(RedisModule_FreeModuleUser(found));
    done == api::OK
}
