//! Converts dates to whole days since 1970-01-01, the form of dates in loaded rows, comparisons and parameters of
//! statements.

use crate::datetime::DateTime;

const DAY_US: i64 = 86_400_000_000;

/// Returns the days since 1970-01-01 of a date such as 1998-09-02; none for a text that is not a date from 1970 to
/// 2199.
pub fn day_of(text: &str) -> Option<i32> {
    let mut parts = text.splitn(3, '-');
    let mut part = |digits: usize| {
        let part = parts.next()?;
        let plain = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| part.parse::<u32>().ok()).flatten()
    };
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    let date = DateTime { year: year.into(), month: month as u8, day: day as u8, time: (0, 0, 0) };
    let micros = date.micros();
    // A month has no such day if another date comes back.
    let is_date = (1970..2200).contains(&year) && DateTime::from_micros(micros) == date;
    is_date.then_some((micros / DAY_US) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_have_their_days() {
        for (text, day) in [
            ("1970-01-01", 0),
            ("1970-12-31", 364),
            ("1992-01-01", 8_035),
            ("1996-02-29", 9_555),
            ("1998-09-02", 10_471),
            ("2000-03-01", 11_017),
        ] {
            assert_eq!(day_of(text), Some(day), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_has_none() {
        for text in [
            "",
            "1998",
            "1998-09",
            "1998-9-2",
            "1998-09-31",
            "1997-02-29",
            "1998-00-01",
            "1998-13-01",
            "1969-12-31",
            "1998-09-02 ",
            "+998-09-02",
            "1998-09-02-1",
        ] {
            assert_eq!(day_of(text), None, "{text}");
        }
    }
}
