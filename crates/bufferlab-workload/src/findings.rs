//! The findings of a workload at the end of a run, over its warm-up and window. The findings of several drivers can be
//! added up.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, to_value};

/// The results of a driver's workload besides counts and latencies of transactions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Facts that are the same for all drivers of a run.
    pub facts: Map<String, Value>,
    /// Counts that add up over the drivers.
    pub counts: Map<String, Value>,
    /// Numbers of orders delivered since the load, as (warehouse, district, orders), for TPC-C's consistency condition
    /// 11.
    pub delivered_orders: Vec<(u32, u32, u64)>,
}

impl Findings {
    /// Makes findings of these facts and counts.
    pub fn new(facts: impl Serialize, counts: impl Serialize) -> Self {
        Findings { facts: fields(facts), counts: fields(counts), delivered_orders: Vec::new() }
    }

    /// Returns the sum of the findings of two drivers of one run.
    #[must_use]
    pub fn plus(mut self, other: Findings) -> Self {
        for (name, count) in &mut self.counts {
            let theirs = other.counts.get(name).and_then(Value::as_u64);
            *count = (count.as_u64().unwrap_or_default() + theirs.unwrap_or_default()).into();
        }
        for (mine, theirs) in self.delivered_orders.iter_mut().zip(other.delivered_orders) {
            mine.2 += theirs.2;
        }
        self
    }
}

fn fields(of: impl Serialize) -> Map<String, Value> {
    match to_value(of) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Writes the delivered orders into the same object as the other findings.
impl Serialize for Findings {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Told<'a> {
            drawn: Option<Map<String, Value>>,
            delivered_orders: &'a [(u32, u32, u64)],
        }
        let drawn: Map<String, Value> = self.facts.clone().into_iter().chain(self.counts.clone()).collect();
        Told { drawn: Some(drawn).filter(|drawn| !drawn.is_empty()), delivered_orders: &self.delivered_orders }
            .serialize(to)
    }
}
