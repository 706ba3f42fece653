//! Time of writes to an SD card for several write sizes: `cargo run -p floatgate --example card_times`.
#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use floatgate::Card;

pub(crate) fn main() -> floatgate::Result<()> {
    let mut card = Card::named("a1-32g")?;
    for sectors in [1, 8, 64, 512] {
        let took = card.write(0, &vec![0xA5; sectors * 512])?;
        println!("{:>6} bytes: {took}", sectors * 512);
    }
    println!("flush:        {}", card.flush()?);
    Ok(())
}
