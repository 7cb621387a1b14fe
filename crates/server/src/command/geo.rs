//! Places: sorted sets whose scores are places on earth.

use super::geohash::{Place, Search, Shape};
use super::zsets;
use super::{Call, Command, Failure, Outcome, Run, shown, zset_algebra};
use crate::keyspace::Hint;
use crate::keyspace::zset::{Edge, SortedSet};
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Protocol, Reply, number};
use std::cmp::Ordering;

const ONE: (i32, i32, i32) = (1, 1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("geoadd", -5, ONE, Run::Write(geoadd), "Adds places."),
    Command::new("geopos", -2, ONE, Run::Read(geopos), "Longitudes and latitudes of places."),
    Command::new("geohash", -2, ONE, Run::Read(geohash), "Places' names in letters."),
    Command::new("geodist", -4, ONE, Run::Read(geodist), "The distance of two places."),
    Command::new("geosearch", -7, ONE, Run::Read(geosearch), "Places near one."),
    Command::new("geosearchstore", -8, TWO, Run::Write(geosearchstore), "Stores places near one."),
    Command::new("georadius", -6, ONE, Run::Write(georadius), "Places near one."),
    Command::new("georadius_ro", -6, ONE, Run::Read(georadius_ro), "Places near one."),
    Command::new("georadiusbymember", -5, ONE, Run::Write(by_member), "Places near a member's."),
    Command::new(
        "georadiusbymember_ro",
        -5,
        ONE,
        Run::Read(by_member_ro),
        "Places near a member's.",
    ),
];

/// The place in two arguments.
fn place(call: &Call<'_>, at: usize) -> Outcome<Place> {
    let (longitude, latitude) = (call.float(at)?, call.float(at + 1)?);
    let place = Place { longitude, latitude };
    if !place.is_valid() {
        return Err(Failure::say(format!(
            "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
        )));
    }
    Ok(place)
}

/// Metres of the unit in an argument.
fn unit(call: &Call<'_>, at: usize) -> Outcome<f64> {
    Ok(match () {
        () if call.args.is(at, "m") => 1.0,
        () if call.args.is(at, "km") => 1000.0,
        () if call.args.is(at, "ft") => 0.3048,
        () if call.args.is(at, "mi") => 1609.34,
        () => {
            let text = "ERR unsupported unit provided. please use M, KM, FT, MI";
            return Err(Failure::Say(text.into()));
        }
    })
}

fn numeric(call: &Call<'_>, at: usize, wrong: &'static str) -> Outcome<f64> {
    number::parse_f64(call.args.at(at)).ok_or(Failure::Say(wrong.into()))
}

/// A radius and its unit in two arguments.
fn circle(call: &Call<'_>, at: usize) -> Outcome<(Shape, f64)> {
    let radius = numeric(call, at, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(Failure::Say("ERR radius cannot be negative".into()));
    }
    let unit = unit(call, at + 1)?;
    Ok((Shape::Circle(radius * unit), unit))
}

/// A rectangle's sides and their unit in three arguments.
fn rectangle(call: &Call<'_>, at: usize) -> Outcome<(Shape, f64)> {
    let width = numeric(call, at, "ERR need numeric width")?;
    let height = numeric(call, at + 1, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(Failure::Say("ERR height or width cannot be negative".into()));
    }
    let unit = unit(call, at + 2)?;
    Ok((Shape::Box { width: width * unit, height: height * unit }, unit))
}

fn geoadd(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let is_option = |at: usize| ["nx", "xx", "ch"].iter().any(|word| args.is(at, word));
    let first = (2..args.len()).find(|&at| !is_option(at)).unwrap_or(args.len());
    let has = |word: &str| (2..first).any(|at| args.is(at, word));
    if !(args.len() - first).is_multiple_of(3) || has("nx") && has("xx") {
        return Err(Failure::SYNTAX);
    }
    // As ZADD of their scores.
    let mut changed = OwnedArgs::default();
    args.first(0, first).iter().for_each(|arg| changed.push(arg));
    for at in (first..args.len()).step_by(3) {
        changed.push(place(call, at)?.score().to_string().as_bytes());
        changed.push(args.at(at + 2));
    }
    let mut inner = Call {
        tx: &mut *call.tx,
        env: call.env,
        db: call.db,
        client: call.client,
        args: changed.as_args(),
        out: call.out.again(),
        may_wait: false,
        near: Hint::default(),
    };
    let done = zsets::zadd(&mut inner);
    if inner.out.is_cut() {
        call.out.cut();
    }
    done
}

/// The places of the members that are arguments from the third on, each told to `tell`.
fn each_member(call: &mut Call<'_>, tell: impl Fn(&mut Reply<'_>, Option<Place>)) -> Outcome {
    let set = zsets::look(call)?;
    let members = call.args.from(2);
    call.out.array(members.len());
    for member in members.iter() {
        let score = match set {
            Some(set) => set.score(call.tx, member)?,
            None => None,
        };
        tell(&mut call.out, score.map(Place::of_score));
    }
    Ok(())
}

fn geopos(call: &mut Call<'_>) -> Outcome {
    each_member(call, |out, place| match place {
        Some(place) => reply_place(out, place),
        None => out.null_array(),
    })
}

fn reply_place(out: &mut Reply<'_>, place: Place) {
    out.array(2);
    for degrees in [place.longitude, place.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        match out.protocol() {
            Protocol::Resp2 => out.bulk(text.as_bytes()),
            Protocol::Resp3 => out.raw(format!(",{text}\r\n").as_bytes()),
        }
    }
}

fn geohash(call: &mut Call<'_>) -> Outcome {
    each_member(call, |out, place| match place {
        Some(place) => out.bulk(&place.name()),
        None => out.null(),
    })
}

fn geodist(call: &mut Call<'_>) -> Outcome {
    let unit = match call.args.len() {
        4 => 1.0,
        5 => unit(call, 4)?,
        _ => return Err(Failure::SYNTAX),
    };
    let mut places = [None; 2];
    if let Some(set) = zsets::look(call)? {
        for (place, member) in places.iter_mut().zip(call.args.from(2).iter()) {
            *place = set.score(call.tx, member)?.map(Place::of_score);
        }
    }
    match places {
        [Some(one), Some(other)] => reply_distance(&mut call.out, one.distance(other) / unit),
        _ => call.out.null(),
    }
    Ok(())
}

fn reply_distance(out: &mut Reply<'_>, distance: f64) {
    out.bulk(format!("{distance:.4}").as_bytes());
}

/// Which of the commands searches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// GEOSEARCH, and GEOSEARCHSTORE.
    Search { stores: bool },
    /// GEORADIUS, and that which only reads.
    Place { stores: bool },
    /// GEORADIUSBYMEMBER, and that which only reads.
    Member { stores: bool },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Any,
    Nearest,
    Farthest,
}

/// A search command's arguments.
struct Query<'a> {
    middle: Option<Place>,
    shape: Option<Shape>,
    unit: f64,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    order: Order,
    /// At most so many; none is no limit.
    count: Option<usize>,
    /// The first that are found will do.
    any: bool,
    /// The key to store the result at, and whether distances are stored.
    store: Option<&'a [u8]>,
    stores_distance: bool,
}

/// A place that was found.
struct Hit {
    distance: f64,
    score: f64,
    member: Vec<u8>,
}

fn geosearch(call: &mut Call<'_>) -> Outcome {
    search(call, Form::Search { stores: false })
}

fn geosearchstore(call: &mut Call<'_>) -> Outcome {
    search(call, Form::Search { stores: true })
}

fn georadius(call: &mut Call<'_>) -> Outcome {
    search(call, Form::Place { stores: true })
}

fn georadius_ro(call: &mut Call<'_>) -> Outcome {
    search(call, Form::Place { stores: false })
}

fn by_member(call: &mut Call<'_>) -> Outcome {
    search(call, Form::Member { stores: true })
}

fn by_member_ro(call: &mut Call<'_>) -> Outcome {
    search(call, Form::Member { stores: false })
}

/// The place of a member.
fn place_of(call: &mut Call<'_>, set: SortedSet, member: &[u8]) -> Outcome<Place> {
    let score = set.score(call.tx, member)?;
    let wrong = Failure::Say("ERR could not decode requested zset member".into());
    score.map(Place::of_score).ok_or(wrong)
}

impl<'a> Query<'a> {
    fn parse(call: &mut Call<'a>, form: Form, set: Option<SortedSet>) -> Outcome<Self> {
        let args = call.args;
        let mut query = Query {
            middle: None,
            shape: None,
            unit: 1.0,
            with_distance: false,
            with_score: false,
            with_place: false,
            order: Order::Any,
            count: None,
            any: false,
            store: None,
            stores_distance: false,
        };
        let (mut at, stores) = match form {
            Form::Search { stores: true } => {
                query.store = Some(args.at(1));
                (3, false)
            }
            Form::Search { stores: false } => (2, false),
            Form::Place { stores } => {
                query.middle = Some(place(call, 2)?);
                let (shape, unit) = circle(call, 4)?;
                (query.shape, query.unit) = (Some(shape), unit);
                (6, stores)
            }
            Form::Member { stores } => {
                if let Some(set) = set {
                    query.middle = Some(place_of(call, set, args.at(2))?);
                    let (shape, unit) = circle(call, 3)?;
                    (query.shape, query.unit) = (Some(shape), unit);
                }
                (5, stores)
            }
        };
        let searches = matches!(form, Form::Search { .. });
        let (mut from_member, mut from_place, mut by_circle, mut by_box) =
            (false, false, false, false);
        while at < args.len() {
            let left = args.len() - at - 1;
            match () {
                () if args.is(at, "withdist") => query.with_distance = true,
                () if args.is(at, "withhash") => query.with_score = true,
                () if args.is(at, "withcoord") => query.with_place = true,
                () if args.is(at, "any") => query.any = true,
                () if args.is(at, "asc") => query.order = Order::Nearest,
                () if args.is(at, "desc") => query.order = Order::Farthest,
                () if args.is(at, "count") && left > 0 => {
                    let count = call.integer(at + 1)?;
                    if count <= 0 {
                        return Err(Failure::Say("ERR COUNT must be > 0".into()));
                    }
                    query.count = Some(usize::try_from(count).unwrap_or(usize::MAX));
                    at += 1;
                }
                () if stores && left > 0 && (args.is(at, "store") || args.is(at, "storedist")) => {
                    query.store = Some(args.at(at + 1));
                    query.stores_distance = args.is(at, "storedist");
                    at += 1;
                }
                () if form == Form::Search { stores: true } && args.is(at, "storedist") => {
                    query.stores_distance = true;
                }
                () if searches && args.is(at, "frommember") && left > 0 && !from_place => {
                    if let Some(set) = set {
                        query.middle = Some(place_of(call, set, args.at(at + 1))?);
                    }
                    from_member = true;
                    at += 1;
                }
                () if searches && args.is(at, "fromlonlat") && left > 1 && !from_member => {
                    query.middle = Some(place(call, at + 1)?);
                    from_place = true;
                    at += 2;
                }
                () if searches && args.is(at, "byradius") && left > 1 && !by_box => {
                    let (shape, unit) = circle(call, at + 1)?;
                    (query.shape, query.unit, by_circle) = (Some(shape), unit, true);
                    at += 2;
                }
                () if searches && args.is(at, "bybox") && left > 2 && !by_circle => {
                    let (shape, unit) = rectangle(call, at + 1)?;
                    (query.shape, query.unit, by_box) = (Some(shape), unit, true);
                    at += 3;
                }
                () => return Err(Failure::SYNTAX),
            }
            at += 1;
        }
        let with = query.with_distance || query.with_score || query.with_place;
        let name = shown(args.at(0), 128);
        if query.store.is_some() && with {
            let what = if searches { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(Failure::say(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        if searches && !from_member && !from_place {
            return Err(Failure::say(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"
            )));
        }
        if searches && !by_circle && !by_box {
            return Err(Failure::say(format!(
                "ERR exactly one of BYRADIUS and BYBOX can be specified for {name}"
            )));
        }
        if query.any && query.count.is_none() {
            return Err(Failure::Say("ERR the ANY argument requires COUNT argument".into()));
        }
        // Of all that are near, the nearest.
        if query.count.is_some() && query.order == Order::Any && !query.any {
            query.order = Order::Nearest;
        }
        Ok(query)
    }

    fn compare(&self, one: &Hit, other: &Hit) -> Ordering {
        match self.order {
            Order::Any => Ordering::Equal,
            Order::Nearest => one.distance.total_cmp(&other.distance),
            Order::Farthest => other.distance.total_cmp(&one.distance),
        }
    }

    /// Sorts what was found, and leaves as many as are wanted.
    fn arrange(&self, hits: &mut Vec<Hit>) {
        hits.sort_by(|one, other| self.compare(one, other));
        if let Some(count) = self.count {
            hits.truncate(count);
        }
    }

    /// Calls `each` with all that is found, until it returns false.
    fn walk(
        &self,
        call: &mut Call<'_>,
        set: SortedSet,
        each: &mut dyn FnMut(&mut Call<'_>, Hit) -> Outcome<bool>,
    ) -> Outcome {
        let (Some(middle), Some(shape)) = (self.middle, self.shape) else { return Ok(()) };
        let search = Search { middle, shape };
        for (low, high) in search.ranges() {
            let from = set.count_before(call.tx, &Edge::Before(low))?;
            let to = set.count_before(call.tx, &Edge::Before(high))?;
            if from >= to {
                continue;
            }
            let mut walk = set.walk_at(call.tx, from, false)?;
            for _ in from..to {
                let Some((score, member)) = walk.next(call.tx)? else { break };
                if let Some(distance) = search.distance(Place::of_score(score))
                    && !each(call, Hit { distance, score, member })?
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Collects what is to be answered, or stored with a limit: no more than that needs.
    fn collect(&self, call: &mut Call<'_>, set: SortedSet) -> Outcome<Vec<Hit>> {
        /// Bytes of hits before those that are not wanted are dropped.
        const MORE: usize = 128 << 10;
        let bytes_of = |hit: &Hit| hit.member.len() + zsets::LEAST_REPLY;
        let mut hits: Vec<Hit> = Vec::new();
        // Those of all hits, and of the wanted ones when the others were dropped last.
        let (mut bytes, mut kept) = (0, 0);
        self.walk(call, set, &mut |call, hit| {
            bytes += bytes_of(&hit);
            hits.push(hit);
            match self.count {
                Some(count) if self.any && hits.len() >= count => return Ok(false),
                Some(count) if !self.any && hits.len() > count => {
                    // Each time there are twice as many bytes, so that this takes no more than to read them.
                    if bytes < 2 * kept.max(MORE) {
                        return Ok(true);
                    }
                    hits.select_nth_unstable_by(count, |one, other| self.compare(one, other));
                    hits.truncate(count);
                    bytes = hits.iter().map(bytes_of).sum();
                    kept = bytes;
                }
                _ => {}
            }
            // What cannot be answered need not be collected.
            Ok(call.out.has_room(bytes))
        })?;
        self.arrange(&mut hits);
        Ok(hits)
    }

    fn reply(&self, call: &mut Call<'_>, hits: &[Hit]) {
        let out = &mut call.out;
        let more = [self.with_distance, self.with_score, self.with_place];
        let more = more.into_iter().filter(|with| *with).count();
        out.array(hits.len());
        for hit in hits {
            if more > 0 {
                out.array(more + 1);
            }
            out.bulk(&hit.member);
            if self.with_distance {
                reply_distance(out, hit.distance / self.unit);
            }
            if self.with_score {
                out.integer(hit.score as i64);
            }
            if self.with_place {
                reply_place(out, Place::of_score(hit.score));
            }
        }
    }

    fn score(&self, hit: &Hit) -> f64 {
        if self.stores_distance { hit.distance / self.unit } else { hit.score }
    }
}

fn search(call: &mut Call<'_>, form: Form) -> Outcome {
    let source = if form == (Form::Search { stores: true }) { 2 } else { 1 };
    let set = zsets::look_at(call, call.args.at(source))?;
    let query = Query::parse(call, form, set)?;
    let Some(key) = query.store else {
        match set {
            None => call.out.array(0),
            Some(set) => {
                let hits = query.collect(call, set)?;
                if !call.out.is_cut() {
                    query.reply(call, &hits);
                }
            }
        }
        return Ok(());
    };
    let mut stored: Option<SortedSet> = None;
    let mut store = |call: &mut Call<'_>, hit: &Hit| {
        let set = match stored {
            Some(set) => set,
            None => *stored.insert(SortedSet::create(call.tx, call.db)?),
        };
        let old = set.find(call.tx, &hit.member)?;
        set.set(call.tx, &hit.member, old, query.score(hit))?;
        Outcome::Ok(())
    };
    if let Some(set) = set {
        if query.count.is_some() {
            for hit in &query.collect(call, set)? {
                store(call, hit)?;
            }
        } else {
            query.walk(call, set, &mut |call, hit| store(call, &hit).map(|()| true))?;
        }
    }
    zset_algebra::put(call, key, stored)
}
