//! Order books for Python: columns in, columns out.

use assay_order_book::{
    Depths, Events, Generator, Ladder, LevelStructure, Lookup, Market, Replay, Replayed, Side,
    Structure, Tops, books,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::column::{Column, check_apart};

/// Adds the order books to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(generate_order_events, module)?)?;
    module.add_class::<PyOrderBooks>()
}

type Object<'py> = Bound<'py, PyAny>;
/// kind, side, instrument, order, price, quantity
type SixObjects<'py> =
    (Object<'py>, Object<'py>, Object<'py>, Object<'py>, Object<'py>, Object<'py>);
/// bid price and quantity, ask price and quantity, traded, notional, microprice, VWAP
type EightObjects<'py> = (
    Object<'py>,
    Object<'py>,
    Object<'py>,
    Object<'py>,
    Object<'py>,
    Object<'py>,
    Object<'py>,
    Object<'py>,
);
/// bid price and quantity, ask price and quantity
type FourObjects<'py> = (Object<'py>, Object<'py>, Object<'py>, Object<'py>);

struct EventColumns {
    kind: Column<u8>,
    side: Column<u8>,
    instrument: Column<u16>,
    order: Column<u64>,
    price: Column<i32>,
    quantity: Column<u32>,
}

impl EventColumns {
    fn get(objects: &SixObjects<'_>) -> PyResult<EventColumns> {
        let columns = EventColumns {
            kind: Column::get(&objects.0, "kind")?,
            side: Column::get(&objects.1, "side")?,
            instrument: Column::get(&objects.2, "instrument")?,
            order: Column::get(&objects.3, "order")?,
            price: Column::get(&objects.4, "price")?,
            quantity: Column::get(&objects.5, "quantity")?,
        };
        let lengths = [
            ("side", columns.side.len()),
            ("instrument", columns.instrument.len()),
            ("order", columns.order.len()),
            ("price", columns.price.len()),
            ("quantity", columns.quantity.len()),
        ];
        for (name, length) in lengths {
            check_length(name, columns.kind.len(), length)?;
        }
        Ok(columns)
    }

    fn places(&self) -> [(&'static str, std::ops::Range<usize>); 6] {
        [
            self.kind.place(),
            self.side.place(),
            self.instrument.place(),
            self.order.place(),
            self.price.place(),
            self.quantity.place(),
        ]
    }

    /// # Safety
    ///
    /// Nothing may write to the columns while the events are in use.
    unsafe fn events(&self) -> Events<'_> {
        // SAFETY: the caller guarantees it.
        unsafe {
            Events {
                kind: self.kind.as_slice(),
                side: self.side.as_slice(),
                instrument: self.instrument.as_slice(),
                order: self.order.as_slice(),
                price: self.price.as_slice(),
                quantity: self.quantity.as_slice(),
            }
        }
    }
}

fn check_length(name: &str, expected: usize, got: usize) -> PyResult<()> {
    if expected == got {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("column {name}: expected {expected} elements, got {got}")))
}

/// Fill columns with the events of a random market.
#[pyfunction]
fn generate_order_events(
    py: Python<'_>,
    columns: SixObjects<'_>,
    seed: u64,
    instruments: u16,
    resting: u32,
) -> PyResult<()> {
    let mut kind = Column::<u8>::get_writable(&columns.0, "kind")?;
    let mut side = Column::<u8>::get_writable(&columns.1, "side")?;
    let mut instrument = Column::<u16>::get_writable(&columns.2, "instrument")?;
    let mut order = Column::<u64>::get_writable(&columns.3, "order")?;
    let mut price = Column::<i32>::get_writable(&columns.4, "price")?;
    let mut quantity = Column::<u32>::get_writable(&columns.5, "quantity")?;
    let all = EventColumns::get(&columns)?;
    check_apart(&[], &all.places())?;
    drop(all);
    // SAFETY: the columns are apart from each other, and the caller leaves them alone until this
    // returns.
    let (kind, side, instrument, order, price, quantity) = unsafe {
        (
            kind.as_mut_slice(),
            side.as_mut_slice(),
            instrument.as_mut_slice(),
            order.as_mut_slice(),
            price.as_mut_slice(),
            quantity.as_mut_slice(),
        )
    };
    py.detach(|| {
        let mut generator = Generator::new(Market { seed, instruments, resting });
        for row in 0..kind.len() {
            let (number, event) = generator.event();
            kind[row] = event.kind as u8;
            side[row] = event.side as u8;
            instrument[row] = number;
            order[row] = event.order;
            price[row] = event.price;
            quantity[row] = event.quantity;
        }
    });
    Ok(())
}

/// The books of several instruments.
#[pyclass(name = "OrderBooks", module = "assay._native")]
struct PyOrderBooks {
    books: Box<dyn Replay + Sync>,
}

#[pymethods]
impl PyOrderBooks {
    #[new]
    #[pyo3(signature = (instruments, *, levels, lookup, width, ids))]
    fn new(instruments: u16, levels: &str, lookup: &str, width: usize, ids: u64) -> PyResult<Self> {
        let count = usize::from(instruments);
        if !Ladder::WIDTHS.contains(&width) {
            return Err(PyValueError::new_err(format!(
                "width: expected {} to {} prices, got {width}",
                Ladder::WIDTHS.start(),
                Ladder::WIDTHS.end()
            )));
        }
        let levels = LevelStructure::of_name(levels).ok_or_else(|| {
            PyValueError::new_err(format!("levels: expected tree or ladder, got {levels}"))
        })?;
        let lookup = Lookup::of_name(lookup).ok_or_else(|| {
            PyValueError::new_err(format!("lookup: expected map, hash or dense, got {lookup}"))
        })?;
        let books = books(count, Structure { levels, lookup, width, ids });
        Ok(PyOrderBooks { books })
    }

    /// Apply events and write what follows from each; returns how many were rejected, and the first.
    #[pyo3(signature = (events, tops, *, grouped=false, depth=0, depths=None))]
    fn replay(
        &mut self,
        py: Python<'_>,
        events: SixObjects<'_>,
        tops: EightObjects<'_>,
        grouped: bool,
        depth: usize,
        depths: Option<FourObjects<'_>>,
    ) -> PyResult<(usize, Option<(usize, &'static str)>)> {
        let inputs = EventColumns::get(&events)?;
        let rows = inputs.kind.len();
        let mut bid_price = Column::<i32>::get_writable(&tops.0, "bid_price")?;
        let mut bid_quantity = Column::<u64>::get_writable(&tops.1, "bid_quantity")?;
        let mut ask_price = Column::<i32>::get_writable(&tops.2, "ask_price")?;
        let mut ask_quantity = Column::<u64>::get_writable(&tops.3, "ask_quantity")?;
        let mut traded = Column::<u32>::get_writable(&tops.4, "traded")?;
        let mut notional = Column::<i64>::get_writable(&tops.5, "notional")?;
        let mut microprice = Column::<f64>::get_writable(&tops.6, "microprice")?;
        let mut vwap = Column::<f64>::get_writable(&tops.7, "vwap")?;
        let mut outputs = vec![
            bid_price.place(),
            bid_quantity.place(),
            ask_price.place(),
            ask_quantity.place(),
            traded.place(),
            notional.place(),
            microprice.place(),
            vwap.place(),
        ];
        let lengths = [
            ("bid_price", bid_price.len()),
            ("bid_quantity", bid_quantity.len()),
            ("ask_price", ask_price.len()),
            ("ask_quantity", ask_quantity.len()),
            ("traded", traded.len()),
            ("notional", notional.len()),
            ("microprice", microprice.len()),
            ("vwap", vwap.len()),
        ];
        for (name, length) in lengths {
            check_length(name, rows, length)?;
        }
        let mut levels = match &depths {
            None => None,
            Some(objects) => {
                let columns = (
                    Column::<i32>::get_writable(&objects.0, "depth_bid_price")?,
                    Column::<u64>::get_writable(&objects.1, "depth_bid_quantity")?,
                    Column::<i32>::get_writable(&objects.2, "depth_ask_price")?,
                    Column::<u64>::get_writable(&objects.3, "depth_ask_quantity")?,
                );
                let expected = rows.saturating_mul(depth);
                check_length("depth_bid_price", expected, columns.0.len())?;
                check_length("depth_bid_quantity", expected, columns.1.len())?;
                check_length("depth_ask_price", expected, columns.2.len())?;
                check_length("depth_ask_quantity", expected, columns.3.len())?;
                outputs.extend([
                    columns.0.place(),
                    columns.1.place(),
                    columns.2.place(),
                    columns.3.place(),
                ]);
                Some(columns)
            }
        };
        check_apart(&inputs.places(), &outputs)?;
        // SAFETY: outputs are apart from each other and from inputs, and the caller leaves all of
        // them alone until this returns.
        let (events, mut tops, mut depths) = unsafe {
            (
                inputs.events(),
                Tops {
                    bid_price: bid_price.as_mut_slice(),
                    bid_quantity: bid_quantity.as_mut_slice(),
                    ask_price: ask_price.as_mut_slice(),
                    ask_quantity: ask_quantity.as_mut_slice(),
                    traded: traded.as_mut_slice(),
                    notional: notional.as_mut_slice(),
                    microprice: microprice.as_mut_slice(),
                    vwap: vwap.as_mut_slice(),
                },
                levels.as_mut().map(|columns| Depths {
                    levels: depth,
                    bid_price: columns.0.as_mut_slice(),
                    bid_quantity: columns.1.as_mut_slice(),
                    ask_price: columns.2.as_mut_slice(),
                    ask_quantity: columns.3.as_mut_slice(),
                }),
            )
        };
        let books = &mut self.books;
        let Replayed { rejected, first } =
            py.detach(|| books.replay(&events, &mut tops, depths.as_mut(), grouped));
        Ok((rejected, first.map(|(row, rejection)| (row, rejection.name()))))
    }

    /// Apply events; returns rows of events, order ids, prices and quantities of all fills.
    #[expect(clippy::type_complexity, reason = "four columns")]
    fn fills(
        &mut self,
        py: Python<'_>,
        events: SixObjects<'_>,
    ) -> PyResult<(Vec<usize>, Vec<u64>, Vec<i32>, Vec<u32>)> {
        let inputs = EventColumns::get(&events)?;
        // SAFETY: the caller leaves the columns alone until this returns.
        let events = unsafe { inputs.events() };
        let books = &mut self.books;
        let fills = py.detach(|| books.fills(&events));
        Ok((
            fills.iter().map(|(row, _)| *row).collect(),
            fills.iter().map(|(_, fill)| fill.order).collect(),
            fills.iter().map(|(_, fill)| fill.price).collect(),
            fills.iter().map(|(_, fill)| fill.quantity).collect(),
        ))
    }

    /// Prices and quantities of both sides of an instrument, from the best on.
    #[expect(clippy::type_complexity, reason = "two lists of levels")]
    fn depth(&self, instrument: usize, levels: usize) -> (Vec<(i32, u64)>, Vec<(i32, u64)>) {
        let side = |side| self.books.depth(instrument, side, levels);
        (side(Side::Buy), side(Side::Sell))
    }

    /// Forget all orders and trades, and keep the memory.
    fn clear(&mut self, py: Python<'_>) {
        let books = &mut self.books;
        py.detach(|| books.clear());
    }

    /// Check all invariants, slowly; returns how many orders rest.
    fn verify(&mut self) -> PyResult<usize> {
        self.books.verify().map_err(PyValueError::new_err)
    }
}
