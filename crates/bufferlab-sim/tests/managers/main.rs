//! Each model beside a slow one over plain vectors, and what must hold of all of them, on random strings of events.

mod innodb;
mod lists;
mod opt;
mod postgres;
mod strings;
