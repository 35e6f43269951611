//! The driver of one connection: chooses transactions for its terminals, draws their inputs, executes them.

use crate::client::{Client, ClientError, Outcome, Planned, Workload};
use crate::tpcc::{TpccConfig, TpccConfigError};

/// The transaction types, by the indices of [`Planned::transaction_type`].
pub const TRANSACTION_TYPES: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];

/// How often the driver drew the choices whose shares the specification fixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCounts {
    /// New-Orders planned.
    pub new_orders: u64,
}

/// Output
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutput {}

/// TPC-C
#[derive(Debug)]
pub struct TpccDriver {
    delivered_orders: Vec<u64>,
}

impl TpccDriver {
    /// The driver `driver_index` of `drivers`.
    ///
    /// # Errors
    /// [`TpccConfigError`].
    pub fn new(config: TpccConfig, driver_index: u32, drivers: u32) -> Result<Self, TpccConfigError> {
        let _ = (config, driver_index, drivers);
        todo!()
    }

    /// Orders this driver has delivered, for each district: index `(warehouse - 1) * 10 + district - 1`.
    #[must_use]
    pub fn delivered_orders(&self) -> &[u64] {
        &self.delivered_orders
    }
}

impl Workload for TpccDriver {
    fn transaction_types(&self) -> &'static [&'static str] {
        &TRANSACTION_TYPES
    }

    fn terminals(&self) -> usize {
        todo!()
    }

    fn plan(&mut self) -> Planned {
        todo!()
    }

    fn execute<C: Client>(&mut self, client: &mut C) -> Result<Outcome, ClientError> {
        let _ = client;
        todo!()
    }
}
