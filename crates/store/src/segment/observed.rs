//! What the values of a window are based on, in a record: how many observations each row has, and their squared weights.
//!
//! Nearly all windows are small here: their counts are a column of the samples, and their weights are equal.

use flamelet_profile::protobuf::{Fields, MessageWriter};
use flamelet_profile::{Error, ErrorKind, Observations, Observed, Result};

/// The fields of the message.
mod field {
    /// The column that the weights are given in.
    pub(super) const VALUE_TYPE: u32 = 1;
    /// The column that counts the observations, plus one.
    pub(super) const COUNT_COLUMN: u32 = 2;
    /// The counts of all rows, where no column has them.
    pub(super) const COUNTS: u32 = 3;
    /// The rows whose weights are not equal, each as the difference to the one before.
    pub(super) const UNEQUAL: u32 = 4;
    /// The squared weights of these rows, as doubles.
    pub(super) const SQUARES: u32 = 5;
}

/// How far squared weights may be from those of equal weights, since they are sums of floating-point numbers.
const TOLERANCE: f64 = 1e-9;

/// Writes what rows are based on. `columns` has the values of these rows.
pub(crate) fn write(message: &mut MessageWriter, observed: &Observations, columns: &[Vec<i64>]) {
    let counts: Vec<u64> = observed.rows.iter().map(|row| row.count.round() as u64).collect();
    message.uint(field::VALUE_TYPE, observed.value_type as u64);
    let has_counts = |column: &Vec<i64>| {
        column.iter().zip(&counts).all(|(&value, &count)| u64::try_from(value) == Ok(count))
    };
    match columns.iter().position(has_counts) {
        Some(column) => message.uint(field::COUNT_COLUMN, column as u64 + 1),
        None => message.packed(field::COUNTS, counts.iter().copied()),
    }
    let Some(values) = columns.get(observed.value_type) else { return };
    let rows = observed.rows.iter().zip(&counts).zip(values).enumerate();
    let unequal = rows.filter(|(_, ((row, count), value))| {
        let expected = Observed::equal(**count as f64, **value as f64).squares;
        (row.squares - expected).abs() > expected * TOLERANCE
    });
    let (places, squares): (Vec<u64>, Vec<u64>) =
        unequal.map(|(at, ((row, _), _))| (at as u64, row.squares.to_bits())).unzip();
    let before = std::iter::once(0).chain(places.iter().copied());
    message.packed(field::UNEQUAL, places.iter().zip(before).map(|(place, before)| place - before));
    message.packed_fixed64(field::SQUARES, &squares);
}

/// Reads what the rows of a window with these columns are based on.
pub(crate) fn read(message: &[u8], columns: &[Vec<i64>]) -> Result<Observations> {
    let (mut value_type, mut column) = (0, 0);
    let (mut counts, mut steps, mut squares) = (Vec::new(), Vec::new(), Vec::new());
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        let into = match number {
            field::VALUE_TYPE => {
                value_type = value.uint()?;
                continue;
            }
            field::COUNT_COLUMN => {
                column = value.uint()?;
                continue;
            }
            field::SQUARES => {
                squares = value.fixed64s()?.map(f64::from_bits).collect();
                continue;
            }
            field::COUNTS => &mut counts,
            field::UNEQUAL => &mut steps,
            _ => continue,
        };
        value.each_uint(|number| {
            into.push(number);
            Ok(())
        })?;
    }
    let number = |number: u64| usize::try_from(number).map_err(|_| corrupt());
    if let Some(column) = number(column)?.checked_sub(1) {
        let values = columns.get(column).ok_or_else(corrupt)?;
        counts = values.iter().map(|&value| value.unsigned_abs()).collect();
    }
    let value_type = number(value_type)?;
    let values = columns.get(value_type).filter(|values| values.len() == counts.len()).ok_or_else(corrupt)?;
    let equal = |(&count, &value): (&u64, &i64)| Observed::equal(count as f64, value as f64);
    let mut rows: Vec<Observed> = counts.iter().zip(values).map(equal).collect();
    if steps.len() != squares.len() {
        return Err(corrupt());
    }
    let mut place = 0usize;
    for (&step, &squares) in steps.iter().zip(&squares) {
        place = place.saturating_add(number(step)?);
        let row =
            rows.get_mut(place).filter(|_| squares.is_finite() && squares >= 0.0).ok_or_else(corrupt)?;
        row.squares = squares;
    }
    Ok(Observations { value_type, rows })
}

fn corrupt() -> Error {
    Error::new(ErrorKind::Corrupt, "the observations of a window contradict its values")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(observed: &Observations, columns: &[Vec<i64>]) -> (Observations, usize) {
        let mut message = MessageWriter::default();
        write(&mut message, observed, columns);
        let bytes = message.into_bytes();
        (read(&bytes, columns).expect("read"), bytes.len())
    }

    #[test]
    fn equal_weights_that_a_column_counts_take_a_few_bytes() {
        let columns = [vec![3, 1, 7], vec![30, 10, 70]];
        let rows = vec![Observed::equal(3.0, 30.0), Observed::equal(1.0, 10.0), Observed::equal(7.0, 70.0)];
        let observed = Observations { value_type: 1, rows };
        assert_eq!(round_trip(&observed, &columns), (observed, 4));
    }

    #[test]
    fn unequal_weights_and_other_counts_are_kept() {
        let columns = [vec![30, 10, -70, 0]];
        let rows = [(3.0, 500.0), (1.0, 100.0), (2.0, 4900.0), (0.0, 0.0)];
        let rows = rows.map(|(count, squares)| Observed { count, squares }).into();
        let observed = Observations { value_type: 0, rows };
        assert_eq!(round_trip(&observed, &columns).0, observed);
    }

    #[test]
    fn what_does_not_fit_the_values_is_refused() {
        let columns = [vec![3, 1], vec![30, 10]];
        let message = |fields: &dyn Fn(&mut MessageWriter)| {
            let mut message = MessageWriter::default();
            fields(&mut message);
            message.into_bytes()
        };
        let bad: [&dyn Fn(&mut MessageWriter); 5] = [
            &|message| message.uint(field::COUNT_COLUMN, 3),
            &|message| message.packed(field::COUNTS, [1, 2, 3].into_iter()),
            &|message| {
                message.uint(field::VALUE_TYPE, 2);
                message.uint(field::COUNT_COLUMN, 1);
            },
            &|message| {
                message.uint(field::COUNT_COLUMN, 1);
                message.packed(field::UNEQUAL, [2].into_iter());
                message.packed_fixed64(field::SQUARES, &[1f64.to_bits()]);
            },
            &|message| {
                message.uint(field::COUNT_COLUMN, 1);
                message.packed(field::UNEQUAL, [1].into_iter());
                message.packed_fixed64(field::SQUARES, &[f64::NAN.to_bits()]);
            },
        ];
        for (at, fields) in bad.iter().enumerate() {
            assert!(read(&message(fields), &columns).is_err(), "{at}");
        }
    }
}
