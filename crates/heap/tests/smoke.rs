//! A first look.
use perdura::collections::*;
use perdura::testing::TestHeap;

#[test]
fn smoke() {
    let mut heap = TestHeap::new();
    let tx = &mut heap;
    let map = HashMap::<u64, u64>::create(tx).unwrap();
    let names = HashMap::<Bytes, Bytes>::create(tx).unwrap();
    for i in 0..2000u64 {
        assert_eq!(map.insert(tx, i, i * 2).unwrap(), None);
        let name = format!("{:0w$}", i, w = (i % 30) as usize);
        names.insert(tx, name.as_bytes(), b"value").unwrap();
        assert_eq!(names.get(tx, name.as_bytes()).unwrap().unwrap(), b"value");
    }
    for i in 0..2000u64 {
        assert_eq!(map.get(tx, i).unwrap(), Some(i * 2));
    }
    assert_eq!(map.len(tx).unwrap(), 2000);
    map.check(tx, &mut |_| Ok(())).unwrap();
    for i in 0..2000u64 {
        assert_eq!(map.remove(tx, i).unwrap(), Some(i * 2));
    }
    map.check(tx, &mut |_| Ok(())).unwrap();
    map.destroy(tx).unwrap();
    names.check(tx, &mut |_| Ok(())).unwrap();
    names.destroy(tx).unwrap();
    let v = Vector::<u64>::create(tx).unwrap();
    for i in 0..5000 {
        v.push(tx, i).unwrap();
    }
    v.check(tx, &mut |_| Ok(())).unwrap();
    v.destroy(tx).unwrap();
    assert_eq!(heap.live(), 0);
}
