//! Compares the b-tree with a simple slow one: a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::Btree;
use crate::pools::{Objects, Pools};

impl Btree {
    /// Returns the pages of each level, the root's first.
    fn level_pages(&self) -> Vec<usize> {
        let (mut counts, mut level) = (Vec::new(), vec![0]);
        while !level.is_empty() {
            counts.push(level.len());
            level = level.iter().flat_map(|&node| self.nodes[node as usize].children.iter().copied()).collect();
        }
        counts
    }

    /// Returns all keys in their order.
    fn keys(&self) -> Vec<u32> {
        let mut keys = Vec::new();
        self.collect(0, &mut keys);
        keys
    }

    fn collect(&self, node: u32, keys: &mut Vec<u32>) {
        let at = &self.nodes[node as usize];
        for place in 0..=at.keys.len() {
            if let Some(&child) = at.children.get(place) {
                self.collect(child, keys);
            }
            keys.extend(at.keys.get(place));
        }
    }
}

proptest! {
    #[test]
    fn a_btree_holds_what_a_sorted_map_holds(
        page_bytes in prop::sample::select(vec![512u32, 1024, 2048, 4096]),
        loaded in 0u32..900,
        steps in prop::collection::vec((0u32..4000, 0..5, 20u16..700), 0..300),
    ) {
        let (mut tree, mut pool) = (Btree::new(page_bytes), Pools::new(Vec::new()));
        let mut twin = BTreeMap::new();
        for key in 0..loaded {
            let bytes = 100 + (key * 37 % 400) as u16;
            tree.append(&mut pool, key * 4, bytes, false);
            twin.insert(key * 4, bytes);
        }
        let mut objects = Objects::default();
        tree.place(&mut objects, "tree", 4000);
        for (key, step, bytes) in steps {
            match (step, twin.contains_key(&key)) {
                (0..=2, false) => {
                    tree.insert(&mut pool, key, bytes);
                    twin.insert(key, bytes);
                }
                (3, true) => {
                    tree.delete(&mut pool, key);
                    twin.remove(&key);
                }
                (4, true) if twin[&key] < 700 => {
                    tree.grow(&mut pool, key, 9);
                    twin.insert(key, twin[&key] + 9);
                }
                _ => {}
            }
        }
        prop_assert_eq!(tree.keys(), twin.keys().copied().collect::<Vec<_>>());
        let pages = tree.pages();
        let mut distinct = pages.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), pages.len(), "two nodes have one page");
        prop_assert!(pages.iter().chain(&tree.dirty).all(|&page| page < objects.pages()));
        let bytes: u32 = twin.values().map(|&bytes| u32::from(bytes) + 2).sum();
        prop_assert!(pages.len() as u32 >= bytes / page_bytes, "pages hold more than they have room for");
        let of_chains = twin.keys().filter_map(|&key| tree.chain(key)).map(|(_, chain)| chain.len()).sum::<usize>();
        prop_assert_eq!(pages.len(), tree.level_pages().iter().sum::<usize>() + of_chains);
        for (&key, &bytes) in &twin {
            let before = pool.gets();
            tree.seek(&mut pool, key);
            prop_assert!(pages.contains(&tree.current()));
            let own = tree.chain(key).map_or(0, |(_, chain)| chain.len() as u64);
            // A search gets a page of each level, and the chains of all cells that it compares; the row's own cell is
            // one of them.
            prop_assert!(pool.gets() - before >= tree.level_pages().len() as u64 + own);
            tree.rewrite(&mut pool, key);
            prop_assert_eq!(tree.bytes(), u32::from(bytes));
        }
    }
}
