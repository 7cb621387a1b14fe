//! Points with whole coordinates, so that predicates on them are exact.

/// The side of the square that all points are in.
pub(super) const SIDE: i64 = 1 << 26;
/// Triangles with a shorter edge are not refined: points would coincide.
const SHORTEST: i64 = 32;

/// A point; in the heap it is a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) x: i64,
    pub(super) y: i64,
}

impl Point {
    pub(super) const fn word(self) -> u64 {
        (self.x as u64) << 32 | self.y as u64
    }

    pub(super) const fn of_word(word: u64) -> Self {
        Point { x: (word >> 32) as i64, y: (word & 0xFFFF_FFFF) as i64 }
    }

    /// Both coordinates of the way to another, in as many bits as their products need.
    const fn to(self, other: Point) -> [i128; 2] {
        [(other.x - self.x) as i128, (other.y - self.y) as i128]
    }

    const fn distance2(self, other: Point) -> i128 {
        let [x, y] = self.to(other);
        x * x + y * y
    }
}

/// More than 0 if `c` is to the left of the way from `a` to `b`; twice the triangle's area.
pub(super) const fn turn(a: Point, b: Point, c: Point) -> i128 {
    let ([bx, by], [cx, cy]) = (a.to(b), a.to(c));
    bx * cy - by * cx
}

/// Whether `d` is within the circle through a triangle's corners, which turn to the left.
pub(super) const fn is_in_circle([a, b, c]: [Point; 3], d: Point) -> bool {
    let ([ax, ay], [bx, by], [cx, cy]) = (d.to(a), d.to(b), d.to(c));
    let (a2, b2, c2) = (ax * ax + ay * ay, bx * bx + by * by, cx * cx + cy * cy);
    a2 * (bx * cy - by * cx) - b2 * (ax * cy - ay * cx) + c2 * (ax * by - ay * bx) > 0
}

/// Whether `c` sees the ends of a segment under a right angle or a wider one.
pub(super) const fn encroaches(c: Point, a: Point, b: Point) -> bool {
    let ([ax, ay], [bx, by]) = (c.to(a), c.to(b));
    ax * bx + ay * by <= 0
}

/// The point in the middle of two; exact on a line along an axis, to the next whole number.
pub(super) const fn middle(a: Point, b: Point) -> Point {
    Point { x: a.x + (b.x - a.x) / 2, y: a.y + (b.y - a.y) / 2 }
}

/// The middle of the circle through a triangle's corners, to whole numbers. It may be far away.
pub(super) fn centre([a, b, c]: [Point; 3]) -> (i128, i128) {
    let ([bx, by], [cx, cy]) = (a.to(b), a.to(c));
    let (b2, c2, twice) = (bx * bx + by * by, cx * cx + cy * cy, 2 * (bx * cy - by * cx));
    let rounded = |above: i128| (above + twice / 2).div_euclid(twice);
    (i128::from(a.x) + rounded(cy * b2 - by * c2), i128::from(a.y) + rounded(bx * c2 - cx * b2))
}

/// As [`turn`], for a point that may be far away.
pub(super) const fn turn_far(a: Point, b: Point, (x, y): (i128, i128)) -> i128 {
    let [bx, by] = a.to(b);
    bx * (y - a.y as i128) - by * (x - a.x as i128)
}

/// A bound on angles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound(f64);

impl Bound {
    /// Angles of fewer degrees are too sharp.
    pub(super) fn degrees(degrees: f64) -> Self {
        Bound(degrees.to_radians().sin().powi(2))
    }

    /// Whether a triangle has too sharp an angle: its shortest edge is short compared with the circle.
    pub(super) fn is_bad(self, [a, b, c]: [Point; 3]) -> bool {
        let edges = [a.distance2(b), b.distance2(c), c.distance2(a)];
        let shortest = edges.into_iter().min().unwrap_or(0);
        if shortest < i128::from(SHORTEST * SHORTEST) {
            return false;
        }
        // The sine of the sharpest angle is the shortest edge by the circle's diameter, and that is the product of the
        // edges by twice the area.
        let others: f64 = edges.iter().map(|edge| *edge as f64).product::<f64>() / shortest as f64;
        let area = turn(a, b, c) as f64;
        area * area < self.0 * others
    }
}
