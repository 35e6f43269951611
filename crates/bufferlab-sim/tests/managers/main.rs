//! Each model against a slow one over plain vectors, and the rules that hold for all of them, on random strings of
//! events.

mod innodb;
mod lists;
mod opt;
mod postgres;
mod strings;
