//! Places on earth as numbers: the bits of a longitude and a latitude in turn, as Redis has them, so that the scores of
//! sorted sets are the same.

/// A longitude and a latitude in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// The latitudes that a map in Mercator's projection shows as a square.
const LATITUDE_MAX: f64 = 85.051_128_78;
const LONGITUDE_MAX: f64 = 180.0;
/// Bits of each coordinate in a score.
const STEPS: u32 = 26;
const EARTH_RADIUS: f64 = 6_372_797.560_856;
const MERCATOR_MAX: f64 = 20_037_726.37;

impl Place {
    /// Whether it can be put into a score.
    pub(super) fn is_valid(self) -> bool {
        (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&self.longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&self.latitude)
    }

    /// Its score in a sorted set.
    pub(super) fn score(self) -> u64 {
        Area::around(self, STEPS, LATITUDE_MAX).bits
    }

    /// The place of a score.
    pub(super) fn of_score(score: f64) -> Self {
        let (longitude, latitude) = Area { bits: bits(score), steps: STEPS }.limits();
        let middle = |(low, high): (f64, f64), most: f64| ((low + high) / 2.0).clamp(-most, most);
        Place {
            longitude: middle(longitude, LONGITUDE_MAX),
            latitude: middle(latitude, LATITUDE_MAX),
        }
    }

    /// Its name as other programs have it, of which only ten letters say something.
    pub(super) fn name(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Area::around(self, STEPS, 90.0).bits;
        let mut name = [b'0'; 11];
        for (index, letter) in name.iter_mut().enumerate().take(10) {
            *letter = LETTERS[(bits >> (52 - 5 * (index + 1)) & 0x1F) as usize];
        }
        name
    }

    /// The distance to another place in metres, on a sphere.
    pub(super) fn distance(self, other: Place) -> f64 {
        let half =
            ((other.longitude.to_radians_as_c() - self.longitude.to_radians_as_c()) / 2.0).sin();
        if half == 0.0 {
            return latitude_distance(self.latitude, other.latitude);
        }
        let (here, there) = (self.latitude.to_radians_as_c(), other.latitude.to_radians_as_c());
        let up = ((there - here) / 2.0).sin();
        let a = up * up + here.cos() * there.cos() * half * half;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }
}

/// The bits of a score, which may be any number: as C's casts have them on most machines, so that Redis's answers are the
/// same.
fn bits(score: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    let cast = |value: f64| if (-HALF..HALF).contains(&value) { value as i64 } else { i64::MIN };
    match score >= HALF {
        true => cast(score - HALF) as u64 ^ 1 << 63,
        false => cast(score) as u64,
    }
}

fn latitude_distance(one: f64, other: f64) -> f64 {
    EARTH_RADIUS * (other.to_radians_as_c() - one.to_radians_as_c()).abs()
}

/// Angles as Redis computes them: the last bit counts.
trait Angle {
    fn to_radians_as_c(self) -> f64;
    fn to_degrees_as_c(self) -> f64;
}

impl Angle for f64 {
    fn to_radians_as_c(self) -> f64 {
        self * (std::f64::consts::PI / 180.0)
    }

    fn to_degrees_as_c(self) -> f64 {
        self / (std::f64::consts::PI / 180.0)
    }
}

/// A rectangle of the grid: the first bits of all scores in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    bits: u64,
    /// Bits of each coordinate.
    steps: u32,
}

/// Puts the bits of a number at the even places.
fn spread(value: u32) -> u64 {
    let mut x = u64::from(value);
    for (shift, mask) in [
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        x = (x | x << shift) & mask;
    }
    x
}

/// Takes the bits at the even places.
fn gather(bits: u64) -> u32 {
    let mut x = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0F0F_0F0F_0F0F_0F0F),
        (4, 0x00FF_00FF_00FF_00FF),
        (8, 0x0000_FFFF_0000_FFFF),
        (16, 0x0000_0000_FFFF_FFFF),
    ] {
        x = (x | x >> shift) & mask;
    }
    x as u32
}

impl Area {
    /// The one that a place is in, on a grid up to a latitude.
    fn around(place: Place, steps: u32, latitude_max: f64) -> Self {
        let part = |value: f64, most: f64| {
            let offset = (value + most) / (most + most) * (1_u64 << steps) as f64;
            spread(offset as u32)
        };
        let (x, y) = (part(place.longitude, LONGITUDE_MAX), part(place.latitude, latitude_max));
        Area { bits: y | x << 1, steps }
    }

    /// Its least and greatest longitude, and latitude.
    fn limits(self) -> ((f64, f64), (f64, f64)) {
        let scale = (1_u64 << self.steps) as f64;
        let limits = |number: u32, most: f64| {
            let at = |number: f64| -most + number / scale * (most + most);
            (at(f64::from(number)), at(f64::from(number) + 1.0))
        };
        (limits(gather(self.bits >> 1), LONGITUDE_MAX), limits(gather(self.bits), LATITUDE_MAX))
    }

    /// The neighbour so many places to the east and to the north.
    fn beside(self, east: i32, north: i32) -> Self {
        const X: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        const Y: u64 = 0x5555_5555_5555_5555;
        let unused = 64 - 2 * self.steps;
        let moved = |own: u64, mask: u64, other: u64, by: i32| {
            let fill = other >> unused;
            let moved = match by {
                0 => return own,
                1.. => own.wrapping_add(fill + 1),
                _ => (own | fill).wrapping_sub(fill + 1),
            };
            moved & mask >> unused
        };
        let x = moved(self.bits & X, X, Y, east);
        let y = moved(self.bits & Y, Y, X, north);
        Area { bits: x | y, ..self }
    }

    /// The scores in it, without the last.
    fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS - self.steps);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }
}

/// What is searched: all places so far from one, or in a rectangle around it, in metres.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Circle(f64),
    Box { width: f64, height: f64 },
}

/// A search: its middle, and what is around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    pub(super) middle: Place,
    pub(super) shape: Shape,
}

impl Search {
    /// How far a place is from the middle, if it is inside.
    pub(super) fn distance(&self, place: Place) -> Option<f64> {
        match self.shape {
            Shape::Circle(radius) => {
                Some(self.middle.distance(place)).filter(|distance| *distance <= radius)
            }
            Shape::Box { width, height } => {
                let (here, there) = (self.middle, place);
                if latitude_distance(there.latitude, here.latitude) > height / 2.0 {
                    return None;
                }
                let beside = Place { latitude: there.latitude, ..here };
                (there.distance(beside) <= width / 2.0).then(|| here.distance(there))
            }
        }
    }

    /// The least and the greatest longitude, and latitude, of what is searched.
    fn bounds(&self) -> ((f64, f64), (f64, f64)) {
        let (height, width) = match self.shape {
            Shape::Circle(radius) => (radius, radius),
            Shape::Box { width, height } => (height / 2.0, width / 2.0),
        };
        let Place { longitude, latitude } = self.middle;
        let up = (height / EARTH_RADIUS).to_degrees_as_c();
        let wide = |latitude: f64| {
            (width / EARTH_RADIUS / latitude.to_radians_as_c().cos()).to_degrees_as_c()
        };
        let aside = if latitude < 0.0 { wide(latitude - up) } else { wide(latitude + up) };
        ((longitude - aside, longitude + aside), (latitude - up, latitude + up))
    }

    /// The grid's size at which the middle's area and its neighbours cover a radius.
    fn steps(&self) -> u32 {
        let mut radius = match self.shape {
            Shape::Circle(radius) => radius,
            Shape::Box { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        };
        if radius == 0.0 {
            return STEPS;
        }
        let mut steps = 1_i32;
        while radius < MERCATOR_MAX {
            radius *= 2.0;
            steps += 1;
        }
        steps -= 2;
        let latitude = self.middle.latitude.abs();
        steps -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        steps.clamp(1, STEPS as i32) as u32
    }

    /// Ranges of scores that have all places inside: from the first, without the second.
    pub(super) fn ranges(&self) -> Vec<(f64, f64)> {
        let (longitudes, latitudes) = self.bounds();
        let mut steps = self.steps();
        let mut area = Area::around(self.middle, steps, LATITUDE_MAX);
        let limits = |east, north| area.beside(east, north).limits();
        let too_small = limits(0, 1).1.1 < latitudes.1
            || limits(0, -1).1.0 > latitudes.0
            || limits(1, 0).0.1 < longitudes.1
            || limits(-1, 0).0.0 > longitudes.0;
        if steps > 1 && too_small {
            steps -= 1;
            area = Area::around(self.middle, steps, LATITUDE_MAX);
        }
        let (own_longitudes, own_latitudes) = area.limits();
        let is_useless = |east: i32, north: i32| {
            steps >= 2
                && (north < 0 && own_latitudes.0 < latitudes.0
                    || north > 0 && own_latitudes.1 > latitudes.1
                    || east < 0 && own_longitudes.0 < longitudes.0
                    || east > 0 && own_longitudes.1 > longitudes.1)
        };
        let around = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut areas: Vec<Area> = Vec::new();
        for (east, north) in around {
            let next = area.beside(east, north);
            // On a coarse grid neighbours are the same.
            if !is_useless(east, north) && !areas.contains(&next) {
                areas.push(next);
            }
        }
        areas.into_iter().map(Area::scores).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_names_are_redis_s() {
        let palermo = Place { longitude: 13.361389, latitude: 38.115556 };
        assert_eq!(palermo.score(), 3_479_099_956_230_698);
        let found = Place::of_score(3_479_099_956_230_698.0);
        assert!((found.longitude - palermo.longitude).abs() < 1e-5);
        assert_eq!(&found.name(), b"sqc8b49rny0");
        let catania = Place { longitude: 15.087269, latitude: 37.502669 };
        let distance = Place::of_score(catania.score() as f64).distance(found);
        assert!((distance - 166_274.151_6).abs() < 0.0001, "{distance}");
    }

    /// Every place inside has a score in one of the ranges.
    #[test]
    fn ranges_cover_what_is_searched() {
        for seed in 0..20_000_u64 {
            let random = |salt: u64| {
                let mixed = (seed * 31 + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11) as f64
                    / (1_u64 << 53) as f64
            };
            let middle =
                Place { longitude: random(1) * 360.0 - 180.0, latitude: random(2) * 160.0 - 80.0 };
            let size = 10_f64.powf(random(3) * 5.0 + 1.0);
            let shape = match seed % 2 {
                0 => Shape::Circle(size),
                _ => Shape::Box { width: size, height: size * random(4) },
            };
            let search = Search { middle, shape };
            let near = Place {
                longitude: middle.longitude + (random(5) - 0.5) * size / 40_000.0,
                latitude: middle.latitude + (random(6) - 0.5) * size / 60_000.0,
            };
            if !near.is_valid() || search.distance(near).is_none() {
                continue;
            }
            let score = near.score() as f64;
            let found = search.ranges().iter().any(|(low, high)| (*low..*high).contains(&score));
            assert!(found, "{search:?} {near:?}");
        }
    }
}
