//! The mix of TPC-C's transactions by a shuffled deck of cards (specification, 5.2.4.2).

use crate::random::Random;

/// The index of New-Order among the transaction types. Metrics divide by the number of New-Orders.
pub(super) const NEW_ORDER: usize = 0;
/// The index of Payment among the transaction types.
pub(super) const PAYMENT: usize = 1;
/// The index of Order-Status among the transaction types.
pub(super) const ORDER_STATUS: usize = 2;
/// The index of Delivery among the transaction types.
pub(super) const DELIVERY: usize = 3;
/// The index of Stock-Level among the transaction types.
pub(super) const STOCK_LEVEL: usize = 4;

/// Cards of each transaction type: this is the smallest deck that meets the minimum shares of 5.2.3.
const CARDS_OF_TYPE: [usize; 5] = [10, 10, 1, 1, 1];
const CARDS: usize = 23;

/// A deck of 23 cards, one for each transaction. The driver deals all cards and then shuffles them again, so the mix is
/// exact over every 23 transactions.
#[derive(Debug)]
pub(super) struct Deck {
    cards: [usize; CARDS],
    dealt: usize,
}

impl Deck {
    /// Makes a deck that is shuffled before its first card.
    pub(super) fn new() -> Self {
        let mut cards = [0; CARDS];
        let types = CARDS_OF_TYPE.iter().enumerate().flat_map(|(card, &count)| std::iter::repeat_n(card, count));
        for (place, card) in cards.iter_mut().zip(types) {
            *place = card;
        }
        Deck { cards, dealt: CARDS }
    }

    /// Returns the transaction type of the next card.
    pub(super) fn deal(&mut self, random: &mut Random) -> usize {
        if self.dealt == CARDS {
            random.shuffle(&mut self.cards);
            self.dealt = 0;
        }
        self.dealt += 1;
        self.cards[self.dealt - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deck_holds_the_exact_mix_in_a_new_order() {
        let mut random = Random::stream(5, "deck", &[]);
        let mut deck = Deck::new();
        let mut previous = Vec::new();
        for _ in 0..100 {
            let dealt: Vec<usize> = (0..CARDS).map(|_| deck.deal(&mut random)).collect();
            let counts = [0, 1, 2, 3, 4].map(|card| dealt.iter().filter(|&&other| other == card).count());
            assert_eq!(counts, [10, 10, 1, 1, 1]);
            assert_ne!(dealt, previous);
            previous = dealt;
        }
    }
}
