//! The rows of TPC-H's tables, from the generators of the crate `tpchgen`, which makes the same rows as the
//! specification's dbgen.
//!
//! A partition is a range of rows in the order of the table's keys. It needs no seed, because the specification fixes
//! the data of every scale factor.

use std::fmt::{Display, Write};

use serde::Deserialize;
use tpchgen::dates::TPCHDate;
use tpchgen::decimal::TPCHDecimal;
use tpchgen::generators::{
    Customer, CustomerGenerator, LineItem, LineItemGenerator, NationGenerator, Order, OrderGenerator, Part,
    PartGenerator, PartSuppGenerator, RegionGenerator, Supplier, SupplierGenerator,
};

use super::NAME;
use super::config::ScaleFactor;
use super::tables::{Table, TableSet};
use crate::population::{LoadedTable, Population, RowBlock};

/// Returns a date in whole days since 1970.
pub(super) fn day(date: TPCHDate) -> i32 {
    date.into_inner() + TPCHDate::UNIX_EPOCH_OFFSET
}

/// The rows of a set of tables at one scale factor.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexScanPopulation {
    scale_factor: ScaleFactor,
    tables: TableSet,
}

impl IndexScanPopulation {
    /// Makes the population of a set of tables at a scale factor.
    pub fn new(scale_factor: ScaleFactor, tables: TableSet) -> Self {
        IndexScanPopulation { scale_factor, tables }
    }

    /// Returns the index of a partition's table, and the partition's place among that table's partitions, counted from
    /// zero.
    fn place(&self, partition: usize) -> (usize, i32) {
        let mut left = partition as i32;
        for (index, table) in self.tables.tables().iter().enumerate() {
            let own = table.partitions(self.scale_factor);
            if left < own {
                return (index, left);
            }
            left -= own;
        }
        panic!("there is no partition {partition}")
    }
}

/// A writer of rows into a block. It formats all values in the same text buffer.
struct Rows<'a> {
    block: &'a mut RowBlock,
    shown: String,
}

impl Rows<'_> {
    fn money(&mut self, money: TPCHDecimal) {
        self.block.int(money.into_inner());
    }

    fn shown(&mut self, value: &impl Display) {
        self.shown.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.shown, "{value}");
        self.block.text(&self.shown);
    }

    fn supplier(&mut self, supplier: &Supplier) {
        self.block.int(supplier.s_suppkey);
        self.shown(&supplier.s_name);
        self.shown(&supplier.s_address);
        self.block.int(supplier.s_nationkey);
        self.shown(&supplier.s_phone);
        self.money(supplier.s_acctbal);
        self.shown(&supplier.s_comment);
    }

    fn part(&mut self, part: &Part<'_>) {
        self.block.int(part.p_partkey);
        self.shown(&part.p_name);
        self.shown(&part.p_mfgr);
        self.shown(&part.p_brand);
        self.block.text(part.p_type);
        self.block.int(part.p_size);
        self.block.text(part.p_container);
        self.money(part.p_retailprice);
        self.block.text(part.p_comment);
    }

    fn customer(&mut self, customer: &Customer<'_>) {
        self.block.int(customer.c_custkey);
        self.shown(&customer.c_name);
        self.shown(&customer.c_address);
        self.block.int(customer.c_nationkey);
        self.shown(&customer.c_phone);
        self.money(customer.c_acctbal);
        self.block.text(customer.c_mktsegment);
        self.block.text(customer.c_comment);
    }

    fn order(&mut self, order: &Order<'_>) {
        self.block.int(order.o_orderkey);
        self.block.int(order.o_custkey);
        self.shown(&order.o_orderstatus);
        self.money(order.o_totalprice);
        self.block.int(day(order.o_orderdate));
        self.block.text(order.o_orderpriority);
        self.shown(&order.o_clerk);
        self.block.int(order.o_shippriority);
        self.block.text(order.o_comment);
    }

    fn line(&mut self, item: &LineItem<'_>) {
        self.block.int(item.l_orderkey);
        self.block.int(item.l_partkey);
        self.block.int(item.l_suppkey);
        self.block.int(item.l_linenumber);
        self.block.int(100 * item.l_quantity);
        for money in [item.l_extendedprice, item.l_discount, item.l_tax] {
            self.money(money);
        }
        self.block.text(item.l_returnflag);
        self.block.text(item.l_linestatus);
        for date in [item.l_shipdate, item.l_commitdate, item.l_receiptdate] {
            self.block.int(day(date));
        }
        self.block.text(item.l_shipinstruct);
        self.block.text(item.l_shipmode);
        self.block.text(item.l_comment);
    }
}

impl Population for IndexScanPopulation {
    fn workload(&self) -> &'static str {
        NAME
    }

    fn tables(&self) -> Vec<LoadedTable> {
        self.tables.tables().iter().map(|table| LoadedTable::of(table.name(), table.columns())).collect()
    }

    fn partitions(&self) -> usize {
        self.tables.tables().iter().map(|table| table.partitions(self.scale_factor) as usize).sum()
    }

    fn table_of(&self, partition: usize) -> usize {
        self.place(partition).0
    }

    fn expected_rows(&self) -> u64 {
        self.tables.tables().iter().map(|table| table.expected_rows(self.scale_factor)).sum()
    }

    fn generate(&self, partition: usize, block: &mut RowBlock) {
        let (index, place) = self.place(partition);
        let table = self.tables.tables()[index];
        block.reset(index, table.columns().len());
        let mut rows = Rows { block, shown: String::new() };
        let (scale, part, parts) = (self.scale_factor.get(), place + 1, table.partitions(self.scale_factor));
        match table {
            Table::Region => RegionGenerator::default().iter().for_each(|region| {
                rows.block.int(region.r_regionkey);
                rows.block.text(region.r_name);
                rows.block.text(region.r_comment);
            }),
            Table::Nation => NationGenerator::default().iter().for_each(|nation| {
                rows.block.int(nation.n_nationkey);
                rows.block.text(nation.n_name);
                rows.block.int(nation.n_regionkey);
                rows.block.text(nation.n_comment);
            }),
            Table::Supplier => SupplierGenerator::new(scale, part, parts).iter().for_each(|row| rows.supplier(&row)),
            Table::Part => PartGenerator::new(scale, part, parts).iter().for_each(|row| rows.part(&row)),
            Table::PartSupp => PartSuppGenerator::new(scale, part, parts).iter().for_each(|supplied| {
                rows.block.int(supplied.ps_partkey);
                rows.block.int(supplied.ps_suppkey);
                rows.block.int(supplied.ps_availqty);
                rows.money(supplied.ps_supplycost);
                rows.block.text(supplied.ps_comment);
            }),
            Table::Customer => CustomerGenerator::new(scale, part, parts).iter().for_each(|row| rows.customer(&row)),
            Table::Orders => OrderGenerator::new(scale, part, parts).iter().for_each(|row| rows.order(&row)),
            Table::LineItem => LineItemGenerator::new(scale, part, parts).iter().for_each(|row| rows.line(&row)),
        }
    }
}
