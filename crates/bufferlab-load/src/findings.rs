//! What workloads tell of themselves at the end of a run, and how the findings of several drivers are added up.

use bufferlab_workload::index_scan::{IndexScanDriver, Plan};
use bufferlab_workload::tpcc::random::NuRandConstants;
use bufferlab_workload::tpcc::{InputCounts, TpccDriver};
use serde::{Serialize, Serializer};

/// What a workload tells of itself beside counts and latencies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Findings {
    /// Nothing.
    #[default]
    None,
    /// TPC-C's draws and deliveries.
    Tpcc {
        /// The constants of NURand, drawn from the seeds (2.1.6.1).
        #[serde(flatten)]
        constants: NuRandConstants,
        /// How often each choice fell.
        #[serde(flatten)]
        inputs: InputCounts,
        /// Orders delivered since the load: (warehouse, district, orders), for consistency condition 11.
        #[serde(skip)]
        delivered_orders: Vec<(u32, u32, u64)>,
    },
    /// The hot rows that were chosen.
    HotRows {
        /// How many.
        hot_rows: u32,
    },
    /// The plan that Q1 took, and its answers.
    IndexScan {
        /// As asked for, and as the engine says.
        plan: Plan,
        /// The engine's words for it.
        plan_text: String,
        /// Rows of the table in the range.
        #[serde(rename = "rows_in_range")]
        rows: u64,
        /// Answers that were checked and right, over warm-up and window.
        #[serde(rename = "answers_checked")]
        answers: u64,
    },
}

impl Findings {
    /// What a driver of TPC-C drew and delivered.
    #[must_use]
    pub fn of_tpcc(driver: &TpccDriver) -> Self {
        let by_district = driver.delivered_orders().iter().zip(0u32..);
        Findings::Tpcc {
            constants: *driver.constants(),
            inputs: *driver.input_counts(),
            delivered_orders: by_district.map(|(&orders, at)| (at / 10 + 1, at % 10 + 1, orders)).collect(),
        }
    }

    /// What a driver of Q1 was told and has checked.
    #[must_use]
    pub fn of_index_scan(driver: &IndexScanDriver) -> Self {
        Findings::IndexScan {
            plan: driver.plan_asked(),
            plan_text: driver.plan_text().to_owned(),
            rows: driver.answer().rows(),
            answers: driver.checked(),
        }
    }

    /// The findings of two drivers of one run. Constants and hot rows are the same in both; counts add up.
    #[must_use]
    pub fn plus(self, other: Findings) -> Self {
        match (self, other) {
            (
                Findings::Tpcc { constants, inputs, mut delivered_orders },
                Findings::Tpcc { inputs: more, delivered_orders: also, .. },
            ) => {
                for (mine, theirs) in delivered_orders.iter_mut().zip(also) {
                    mine.2 += theirs.2;
                }
                Findings::Tpcc { constants, inputs: sum(inputs, more), delivered_orders }
            }
            (Findings::IndexScan { plan, plan_text, rows, answers }, Findings::IndexScan { answers: more, .. }) => {
                Findings::IndexScan { plan, plan_text, rows, answers: answers + more }
            }
            (mine, _) => mine,
        }
    }
}

/// Deliveries stand beside what was drawn.
pub(crate) fn drawn<S: Serializer>(findings: &Findings, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Told<'a> {
        drawn: &'a Findings,
        delivered_orders: &'a [(u32, u32, u64)],
    }
    let delivered_orders =
        if let Findings::Tpcc { delivered_orders, .. } = findings { &**delivered_orders } else { &[] };
    Told { drawn: findings, delivered_orders }.serialize(to)
}

fn sum(a: InputCounts, b: InputCounts) -> InputCounts {
    InputCounts {
        new_orders: a.new_orders + b.new_orders,
        unused_items: a.unused_items + b.unused_items,
        order_lines: a.order_lines + b.order_lines,
        remote_lines: a.remote_lines + b.remote_lines,
        payments: a.payments + b.payments,
        remote_payments: a.remote_payments + b.remote_payments,
        payments_by_name: a.payments_by_name + b.payments_by_name,
        order_statuses: a.order_statuses + b.order_statuses,
        order_statuses_by_name: a.order_statuses_by_name + b.order_statuses_by_name,
        deliveries: a.deliveries + b.deliveries,
        stock_levels: a.stock_levels + b.stock_levels,
    }
}

#[cfg(test)]
mod tests {
    use bufferlab_workload::client::Workload;
    use bufferlab_workload::tpcc::TpccConfig;

    use super::*;

    #[test]
    fn the_draws_of_two_drivers_add_up() {
        let config = TpccConfig::new(1, 1, 2).expect("the scale is valid");
        let drawn = |index| {
            let mut driver = TpccDriver::new(config, index, 2).expect("there is such a driver");
            for _ in 0..300 {
                driver.plan();
            }
            Findings::of_tpcc(&driver)
        };
        let (first, second) = (drawn(0), drawn(1));
        let inputs = |findings: &Findings| match findings {
            Findings::Tpcc { inputs, .. } => *inputs,
            other => panic!("{other:?}"),
        };
        let planned = |counts: InputCounts| {
            counts.new_orders + counts.payments + counts.order_statuses + counts.deliveries + counts.stock_levels
        };
        let both = first.clone().plus(second.clone());
        assert_eq!(planned(inputs(&both)), 600);
        assert_eq!(inputs(&both).order_lines, inputs(&first).order_lines + inputs(&second).order_lines);
    }
}
