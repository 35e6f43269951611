//! The terminals of a TPC-C driver, and their order.

use crate::tpcc::schema::TERMINALS_PER_WAREHOUSE;
use crate::tpcc::{TpccConfig, TpccConfigError};

/// A terminal, bound to one warehouse for ever (2.4.1.1) and to one district for Stock-Level (2.8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terminal {
    pub(super) warehouse: u32,
    pub(super) district: u32,
}

/// Returns the terminals of driver `driver_index`: every `drivers`-th of all terminals, counted warehouse by warehouse.
/// So the ten terminals of a warehouse belong to different drivers, and wait for each other's locks as real terminals
/// would.
///
/// They are in the order of districts, so a driver's successive transactions are at different warehouses.
pub(super) fn terminals_of(
    config: &TpccConfig,
    driver_index: u32,
    drivers: u32,
) -> Result<Vec<Terminal>, TpccConfigError> {
    if driver_index >= drivers {
        return Err(TpccConfigError::DriverIndex { driver_index, drivers });
    }
    if drivers > config.terminals() {
        return Err(TpccConfigError::IdleDrivers { drivers, terminals: config.terminals() });
    }
    let own = (driver_index..config.terminals()).step_by(drivers as usize);
    let mut terminals: Vec<Terminal> = own
        .map(|number| Terminal {
            warehouse: number / TERMINALS_PER_WAREHOUSE + 1,
            district: number % TERMINALS_PER_WAREHOUSE + 1,
        })
        .collect();
    terminals.sort_by_key(|terminal| (terminal.district, terminal.warehouse));
    Ok(terminals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(warehouses: u32) -> TpccConfig {
        TpccConfig::new(warehouses, 1, 1).expect("the scale is valid")
    }

    #[test]
    fn one_driver_serves_each_terminal_once_and_changes_warehouse_every_time() {
        let terminals = terminals_of(&config(3), 0, 1).expect("one driver");
        assert_eq!(terminals.len(), 30);
        assert!(terminals.windows(2).all(|pair| pair[0].warehouse != pair[1].warehouse));
        assert!(
            terminals
                .windows(2)
                .all(|pair| (pair[0].district, pair[0].warehouse) < (pair[1].district, pair[1].warehouse))
        );
    }

    #[test]
    fn several_drivers_share_the_terminals_without_gap_or_overlap() {
        for drivers in [1, 2, 3, 7, 10, 20] {
            let mut all: Vec<(u32, u32)> = (0..drivers)
                .flat_map(|index| terminals_of(&config(2), index, drivers).expect("enough terminals"))
                .map(|terminal| (terminal.warehouse, terminal.district))
                .collect();
            all.sort_unstable();
            let every: Vec<(u32, u32)> = (1..=2).flat_map(|w| (1..=10).map(move |d| (w, d))).collect();
            assert_eq!(all, every, "with {drivers} drivers");
        }
    }

    #[test]
    fn drivers_without_terminals_are_refused() {
        assert_eq!(terminals_of(&config(1), 0, 11), Err(TpccConfigError::IdleDrivers { drivers: 11, terminals: 10 }));
        let missing = TpccConfigError::DriverIndex { driver_index: 2, drivers: 2 };
        assert_eq!(terminals_of(&config(1), 2, 2), Err(missing));
    }
}
