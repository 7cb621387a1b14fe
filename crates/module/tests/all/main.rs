//! The module in stock servers. Each test starts its own, by the program that `PERDURA_REDIS_SERVER` names
//! (`redis-server`), with the library that `PERDURA_MODULE` names (that of this build). How often they are killed, and
//! how many commands are sent, follows the budget of all tests (`crates/testing`).

mod client;
mod cluster;
mod cut_short;
mod differential;
mod exec;
mod foreign;
mod load;
mod node;
mod replica;
mod rights;
mod sentinel;
mod server;
mod setups;

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn new(what: &str) -> Self {
        let seed = perdura_testing::seeds(1, 1).start;
        println!("{what}: PERDURA_TEST_SEED={seed}");
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}
