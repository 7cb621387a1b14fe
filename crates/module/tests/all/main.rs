//! The module in stock servers. Each test starts its own, by the program that `PERDURA_REDIS_SERVER` names
//! (`redis-server`), with the library that `PERDURA_MODULE` names (that of this build), on ports from `PERDURA_PORT`
//! (17400) on. `PERDURA_ROUNDS` says how often a test kills them, `PERDURA_SEED` which random choices it makes.

mod client;
mod cluster;
mod differential;
mod load;
mod node;
mod replica;
mod server;

/// A number of the environment's.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn new(what: &str, default: u64) -> Self {
        let seed = setting("PERDURA_SEED", default);
        println!("{what}: PERDURA_SEED={seed}");
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}
