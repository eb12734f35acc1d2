//! Prints the records of a perf.data file as the crate linux-perf-data reads them, for a test. It is Rust of 2022, as in Debian 12.

use linux_perf_data::linux_perf_event_reader::EventRecord;
use linux_perf_data::{AttributeDescription, PerfFileReader, PerfFileRecord};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).expect("a file");
    let reader = std::io::BufReader::new(std::fs::File::open(path)?);
    let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(reader)?;
    let names = perf_file.event_attributes().iter().map(AttributeDescription::name);
    let names: Vec<String> = names.map(|name| name.unwrap_or("?").to_string()).collect();
    while let Some(record) = record_iter.next_record(&mut perf_file)? {
        if let PerfFileRecord::EventRecord { attr_index, record } = record {
            let at = record.common_data()?;
            let at = format!("{} {:?} {:?}", names[attr_index], at.cpu, at.timestamp);
            match record.parse()? {
                EventRecord::Sample(sample) => {
                    let raw = sample.raw.expect("raw data").as_slice().into_owned();
                    let hex: String = raw.iter().map(|b| format!("{:02x}", b)).collect();
                    println!("sample {} {}", at, hex);
                }
                EventRecord::Lost(lost) => println!("lost {} {}", at, lost.count),
                _ => println!("{:?} {}", record.record_type, at),
            }
        }
    }
    Ok(())
}
