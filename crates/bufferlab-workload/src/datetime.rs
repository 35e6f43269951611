//! Converts dates of the calendar from and to microseconds since 1970 (UTC, proleptic Gregorian calendar).
//!
//! The algorithms for days and civil dates are those of Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms"
//! (2013).

const DAY_S: i64 = 86_400;

/// A date and time, as in a DATETIME column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// Year of the Gregorian calendar.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, from 1.
    pub day: u8,
    /// Hour, minute and second.
    pub time: (u8, u8, u8),
}

impl DateTime {
    /// Returns the date and time of the whole second that contains this moment.
    pub fn from_micros(micros: i64) -> Self {
        let seconds = micros.div_euclid(1_000_000);
        let (days, of_day) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        DateTime {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month: month as u8,
            day: (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8,
            time: ((of_day / 3_600) as u8, (of_day / 60 % 60) as u8, (of_day % 60) as u8),
        }
    }

    /// Returns the date and time in microseconds since 1970.
    #[must_use]
    pub fn micros(&self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_from_march = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        let (hour, minute, second) = self.time;
        let of_day = i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
        (days * DAY_S + of_day) * 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_are_found() {
        let at = |seconds: i64| DateTime::from_micros(seconds * 1_000_000 + 999_999);
        assert_eq!(at(0), DateTime { year: 1970, month: 1, day: 1, time: (0, 0, 0) });
        assert_eq!(at(951_782_400), DateTime { year: 2000, month: 2, day: 29, time: (0, 0, 0) });
        assert_eq!(at(1_767_225_599), DateTime { year: 2025, month: 12, day: 31, time: (23, 59, 59) });
        assert_eq!(at(-1), DateTime { year: 1969, month: 12, day: 31, time: (23, 59, 59) });
    }

    #[test]
    fn every_day_of_eight_centuries_comes_back() {
        for day in -146_097..2 * 146_097 {
            let micros = (day * DAY_S + day.rem_euclid(DAY_S)) * 1_000_000;
            assert_eq!(DateTime::from_micros(micros).micros(), micros);
        }
    }
}
