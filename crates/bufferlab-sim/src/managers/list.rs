//! A list of pages, from the newest to the oldest. It also has a manager's value for each page, whether the page is in
//! the list or not. A page's number is an index into arrays, so no function searches, and only `new` allocates.

use std::ops::{Index, IndexMut};

/// The links of a page that is not in the list.
const OUT: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node<T> {
    newer: u32,
    older: u32,
    note: T,
}

/// A list of pages. An extra node links its two ends to a ring, so that the code for links needs no test for an end.
pub(crate) struct PageList<T> {
    nodes: Vec<Node<T>>,
    len: u32,
}

impl<T: Copy + Default> PageList<T> {
    /// Makes an empty list for pages `0..pages`.
    pub(crate) fn new(pages: u32) -> Self {
        assert!(pages < OUT, "{pages} pages are more than a list can number");
        let mut nodes = vec![Node { newer: OUT, older: OUT, note: T::default() }; pages as usize + 1];
        (nodes[pages as usize].newer, nodes[pages as usize].older) = (pages, pages);
        PageList { nodes, len: 0 }
    }

    /// Returns the number of pages in the list.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn contains(&self, page: u32) -> bool {
        self.nodes[page as usize].newer != OUT
    }

    /// Returns the extra node between the ends: it follows the oldest page, and the newest page follows it.
    pub(crate) fn ends(&self) -> u32 {
        self.nodes.len() as u32 - 1
    }

    /// Returns the newest page. The list must not be empty.
    #[inline]
    pub(crate) fn newest(&self) -> u32 {
        debug_assert!(self.len > 0, "an empty list has no newest page");
        self.older(self.ends())
    }

    /// Returns the oldest page. The list must not be empty.
    #[inline]
    pub(crate) fn oldest(&self) -> u32 {
        debug_assert!(self.len > 0, "an empty list has no oldest page");
        self.newer(self.ends())
    }

    /// Returns the page before this one, towards the newest.
    #[inline]
    pub(crate) fn newer(&self, page: u32) -> u32 {
        debug_assert!(self.contains(page), "page {page} is not in the list: no page is before it");
        self.nodes[page as usize].newer
    }

    /// Returns the page after this one, towards the oldest.
    #[inline]
    pub(crate) fn older(&self, page: u32) -> u32 {
        debug_assert!(self.contains(page), "page {page} is not in the list: no page is behind it");
        self.nodes[page as usize].older
    }

    /// Puts a page that is not in the list at its front.
    #[inline]
    pub(crate) fn push_newest(&mut self, page: u32) {
        self.insert_behind(self.ends(), page);
    }

    /// Puts a page that is not in the list after one that is.
    #[inline]
    pub(crate) fn insert_behind(&mut self, newer: u32, page: u32) {
        debug_assert!(self.contains(newer), "page {newer} is not in the list: page {page} cannot be behind it");
        debug_assert!(!self.contains(page), "page {page} is in the list already");
        let older = self.nodes[newer as usize].older;
        let node = &mut self.nodes[page as usize];
        (node.newer, node.older) = (newer, older);
        self.nodes[newer as usize].older = page;
        self.nodes[older as usize].newer = page;
        self.len += 1;
    }

    /// Takes out a page that is in the list.
    #[inline]
    pub(crate) fn remove(&mut self, page: u32) {
        debug_assert!(self.contains(page), "page {page} is not in the list, and cannot be taken out");
        debug_assert_ne!(page, self.ends(), "the node where the ends meet is no page");
        let node = &mut self.nodes[page as usize];
        let (newer, older) = (node.newer, node.older);
        node.newer = OUT;
        self.nodes[newer as usize].older = older;
        self.nodes[older as usize].newer = newer;
        self.len -= 1;
    }

    /// Moves a page of the list to its front.
    #[inline]
    pub(crate) fn make_newest(&mut self, page: u32) {
        debug_assert!(self.contains(page), "page {page} is not in the list, and cannot become its newest");
        if self.newest() != page {
            self.remove(page);
            self.push_newest(page);
        }
    }

    /// Returns the pages, the newest first.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let next = |&page: &u32| Some(self.older(page));
        std::iter::successors(Some(self.older(self.ends())), next).take(self.len as usize)
    }
}

impl<T> Index<u32> for PageList<T> {
    type Output = T;

    #[inline]
    fn index(&self, page: u32) -> &T {
        &self.nodes[page as usize].note
    }
}

impl<T> IndexMut<u32> for PageList<T> {
    #[inline]
    fn index_mut(&mut self, page: u32) -> &mut T {
        &mut self.nodes[page as usize].note
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGES: u32 = 30;

    /// Returns the pages found by the links in one direction, by the links in the other, and by `contains`.
    fn walks(list: &PageList<()>) -> [Vec<u32>; 3] {
        let back = std::iter::successors(Some(list.newer(list.ends())), |&page| Some(list.newer(page)));
        let mut back: Vec<u32> = back.take_while(|&page| page != list.ends()).collect();
        back.reverse();
        [list.iter().collect(), back, (0..PAGES).filter(|&page| list.contains(page)).collect()]
    }

    proptest! {
        #[test]
        fn a_list_is_a_vector_from_both_ends(steps in prop::collection::vec((0..PAGES, 0..PAGES, 0..3), 0..200)) {
            let (mut list, mut plain) = (PageList::<()>::new(PAGES), Vec::new());
            for (page, other, step) in steps {
                let place = plain.iter().position(|&one| one == page);
                match (step, place, plain.iter().position(|&one| one == other)) {
                    (0, Some(place), _) => {
                        list.remove(page);
                        plain.remove(place);
                    }
                    (1, Some(place), _) => {
                        list.make_newest(page);
                        plain.remove(place);
                        plain.insert(0, page);
                    }
                    (_, None, Some(newer)) => {
                        list.insert_behind(other, page);
                        plain.insert(newer + 1, page);
                    }
                    (_, None, None) => {
                        list.push_newest(page);
                        plain.insert(0, page);
                    }
                    _ => {}
                }
                let mut sorted = plain.clone();
                sorted.sort_unstable();
                prop_assert_eq!(walks(&list), [plain.clone(), plain.clone(), sorted]);
                prop_assert_eq!(list.len() as usize, plain.len());
            }
        }
    }

    #[test]
    #[should_panic(expected = "page 3 is in the list already")]
    fn a_page_that_is_in_the_list_is_not_put_there_again() {
        let mut list = PageList::<()>::new(PAGES);
        [3, 4, 3].into_iter().for_each(|page| list.push_newest(page));
    }

    #[test]
    #[should_panic(expected = "page 7 is not in the list")]
    fn a_page_that_is_not_in_the_list_is_not_taken_out() {
        PageList::<()>::new(PAGES).remove(7);
    }
}
