//! Compares the b-trees with a simple slow implementation: a sorted list of keys.

use bufferlab_generate::pools::Objects;
use bufferlab_generate::tree::{Grown, Interior, Loading, Packed, Packing, pack};
use proptest::prelude::*;

/// Returns whether a record fits into a leaf that holds four rows of a hundred bytes.
fn four(_rows: u32, bytes: u32, record: u32) -> bool {
    bytes + record <= 400
}

proptest! {
    #[test]
    fn a_row_is_on_the_last_leaf_that_begins_not_above_it(bytes in prop::collection::vec(1u16..400, 1..400)) {
        let packing = pack(bytes.iter().copied(), false, four);
        let (firsts, rows) = (packing.firsts.clone(), packing.rows);
        prop_assert_eq!(rows as usize, bytes.len());
        let mut objects = Objects::default();
        let tree = Packed::new(&mut objects, "tree", packing, 50, 10);
        for row in 0..rows {
            let leaf = firsts.iter().rposition(|&first| first <= row).unwrap() as u32;
            prop_assert_eq!(tree.leaf(row), leaf);
            prop_assert_eq!(tree.is_first(leaf, row), firsts[leaf as usize] == row);
        }
        prop_assert_eq!(objects.pages(), tree.leaves() + tree.interior.count(tree.leaves()));
    }

    #[test]
    fn a_tree_that_grows_finds_the_leaf_that_a_sorted_list_of_first_keys_names(
        counts in prop::collection::vec(1u32..30, 1..8),
        splits in prop::collection::vec((0u32..8, 1u32..60), 0..30),
    ) {
        let mut loading = Loading::new(counts.len() as u32, 100, false);
        for (group, &rows) in (0..).zip(&counts) {
            (1..=rows).for_each(|key| loading.push(group, key, 100, &four));
        }
        let mut objects = Objects::default();
        let mut tree = Grown::new(&mut objects, "tree", loading, 10, 100);
        let mut firsts: Vec<(u32, u32)> = vec![(0, 0)];
        let all = (0..).zip(&counts).flat_map(|(group, &rows)| (1..=rows).map(move |key| (group, key)));
        firsts.extend(all.enumerate().filter(|(place, _)| *place > 0 && place % 4 == 0).map(|(_, first)| first));
        for (group, key) in splits {
            let group = group % counts.len() as u32;
            if !firsts.contains(&(group, key)) {
                let elder = tree.place(group, key);
                // No row can move from a leaf without rows.
                let (rows, bytes) = if tree.leaf(elder).rows > 0 { (1, 100) } else { (0, 0) };
                tree.split(elder, group, key, rows, bytes).unwrap();
                firsts.push((group, key));
            }
        }
        firsts.sort_unstable();
        for group in 0..counts.len() as u32 {
            for key in 0..60 {
                let place = tree.place(group, key);
                let first = firsts.iter().rfind(|&&first| first <= (group, key)).unwrap();
                prop_assert_eq!((place.0, tree.leaf(place).first), *first);
            }
        }
        let pages: std::collections::BTreeSet<u32> = tree.leaves().map(|leaf| leaf.page).collect();
        prop_assert_eq!(pages.len(), firsts.len());
    }

    #[test]
    fn the_leaves_of_a_tree_are_the_same_from_both_ends(
        counts in prop::collection::vec(0u32..30, 1..8),
        steps in prop::collection::vec((0u32..8, 1u32..60, any::<bool>()), 0..60),
    ) {
        let mut loading = Loading::new(counts.len() as u32, 100, false);
        loading.push(0, 0, 100, &four);
        for (group, &rows) in (0..).zip(&counts) {
            (1..=rows).for_each(|key| loading.push(group, key, 100, &four));
        }
        let mut objects = Objects::default();
        let mut tree = Grown::new(&mut objects, "tree", loading, 10, 100);
        for (group, key, splits) in steps {
            let group = group % counts.len() as u32;
            let place = tree.place(group, key);
            if !splits && tree.before(place).is_some() {
                tree.remove(place);
            } else if splits && !tree.is_first(place, group, key) {
                let (rows, bytes) = if tree.leaf(place).rows > 0 { (1, 100) } else { (0, 0) };
                tree.split(place, group, key, rows, bytes).unwrap();
            }
            let mut back: Vec<_> =
                std::iter::successors(Some(tree.place(counts.len() as u32 - 1, 99)), |&place| tree.before(place)).collect();
            back.reverse();
            let on: Vec<_> = std::iter::successors(Some(back[0]), |&place| tree.behind(place)).collect();
            prop_assert_eq!(&on, &back);
            prop_assert_eq!(on.len(), tree.leaves().count());
            let firsts: Vec<_> = on.iter().map(|&place| (place.0, tree.leaf(place).first)).collect();
            prop_assert!(firsts.is_sorted_by(|first, next| first < next), "leaves are out of order");
            let pages: std::collections::BTreeSet<u32> = tree.leaves().map(|leaf| leaf.page).collect();
            prop_assert_eq!(pages.len(), on.len(), "two leaves have one page");
        }
    }
}

#[test]
fn interior_pages_are_those_above_the_leaf() {
    let mut objects = Objects::default();
    objects.add("before", 100, 100);
    let (interior, first_leaf) = Interior::new(&mut objects, "tree", 250, 10, 0);
    assert_eq!((interior.count(250), first_leaf), (1 + 3 + 25, 100 + 29));
    assert_eq!(interior.path(0).collect::<Vec<_>>(), [100, 101, 104]);
    assert_eq!(interior.path(249).collect::<Vec<_>>(), [100, 103, 128]);
    assert_eq!(Interior::new(&mut objects, "leaf", 1, 10, 0).0.path(0).count(), 0);
    assert_eq!(pack(std::iter::empty(), false, four), Packing::default());
}
