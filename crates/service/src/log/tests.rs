use super::*;

/// A target a test can read back.
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Captured {
    pub(crate) fn log(format: Format) -> (Log, Self) {
        let captured = Self::default();
        (Log::new(format, captured.clone()).unwrap(), captured)
    }

    pub(crate) fn text(&self, log: &Log) -> String {
        assert!(log.flush(Duration::from_secs(5)));
        String::from_utf8(self.0.lock().clone()).unwrap()
    }

    /// The records, without their `time`.
    pub(crate) fn records(&self, log: &Log) -> Vec<serde_json::Map<String, serde_json::Value>> {
        let parse = |line: &str| {
            let mut record: serde_json::Map<_, _> = serde_json::from_str(line).unwrap();
            assert!(record.remove("time").is_some());
            record
        };
        self.text(log).lines().map(parse).collect()
    }
}

fn formatted(since_epoch: Duration) -> String {
    let mut out = String::new();
    push_time(&mut out, since_epoch);
    out
}

#[test]
fn times_are_rfc_3339_with_nanoseconds() {
    for (seconds, nanos, expected) in [
        (0, 0, "1970-01-01T00:00:00.000000000Z"),
        (951_782_400, 1, "2000-02-29T00:00:00.000000001Z"),
        (951_868_799, 999_999_999, "2000-02-29T23:59:59.999999999Z"),
        (4_107_542_400, 0, "2100-03-01T00:00:00.000000000Z"),
        (1_796_000_000, 5_000, "2026-11-30T00:53:20.000005000Z"),
        (1_735_689_599, 0, "2024-12-31T23:59:59.000000000Z"),
        (13_574_563_200, 0, "2400-02-29T00:00:00.000000000Z"),
    ] {
        assert_eq!(formatted(Duration::new(seconds, nanos)), expected);
    }
}

#[test]
fn a_json_record_keeps_field_order_and_exact_types() {
    let (log, captured) = Captured::log(Format::Json);
    log.info("listening")
        .text("addr", "127.0.0.1:8746")
        .bool("auth", true)
        .uint("max_concurrent", 4u32)
        .int("exit_code", -1)
        .float("cpus", 1.5)
        .float("share", 2.0)
        .float("odd", f64::NAN)
        .count("files", 3)
        .list("callers", ["a", "b\""])
        .send();
    let text = captured.text(&log);
    let (time, rest) = text.strip_prefix("{\"time\":\"").unwrap().split_once('"').unwrap();
    assert!(time.len() == 30 && time.ends_with('Z'), "{time}");
    assert_eq!(
        rest,
        ",\"level\":\"INFO\",\"msg\":\"listening\",\"addr\":\"127.0.0.1:8746\",\"auth\":true,\"max_concurrent\":4,\
         \"exit_code\":-1,\"cpus\":1.5,\"share\":2,\"odd\":null,\"files\":3,\"callers\":[\"a\",\"b\\\"\"]}\n"
    );
}

#[test]
fn a_text_record_quotes_what_could_be_misread() {
    let (log, captured) = Captured::log(Format::Text);
    log.warn("run refused")
        .text("caller", "ci")
        .text("a", "")
        .text("b", "x=1")
        .text("c", "two words\n")
        .send();
    let text = captured.text(&log);
    let (_, rest) = text.split_once(' ').unwrap();
    assert_eq!(
        rest,
        "level=WARN msg=\"run refused\" caller=ci a=\"\" b=\"x=1\" c=\"two words\\n\"\n"
    );
}

#[test]
fn no_value_can_start_a_second_line_or_leave_its_string() {
    let (log, captured) = Captured::log(Format::Json);
    let hostile = "a\"}\n{\"level\":\"\u{0}\u{1b}[31m\u{85}\u{2028}\\";
    log.error("x").text("value", hostile).send();
    let records = captured.records(&log);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["value"], hostile);
}

#[test]
fn an_internal_fault_is_cut_at_4096_bytes_between_characters() {
    let (log, captured) = Captured::log(Format::Json);
    log.fault("0123456789abcdef", &"é".repeat(1 << 19));
    let records = captured.records(&log);
    let error = records[0]["error"].as_str().unwrap();
    assert!(error.len() <= 4096 && error.len() > 4080, "{}", error.len());
    assert!(error.ends_with("é…[cut]"));
    assert_eq!(cut("short", 4096), "short");
}

/// Fails every write but the first bytes, until it is opened.
struct Failing {
    open: Arc<std::sync::atomic::AtomicBool>,
    partial: usize,
    kept: Captured,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.open.load(Ordering::SeqCst) {
            return self.kept.write(bytes);
        }
        match std::mem::take(&mut self.partial) {
            0 => Err(io::Error::from(ErrorKind::StorageFull)),
            count => self.kept.write(&bytes[..count.min(bytes.len())]),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_write_error_is_counted_per_line_and_tears_no_later_line() {
    let open = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let kept = Captured::default();
    let log = Log::new(
        Format::Json,
        Failing {
            open: Arc::clone(&open),
            partial: 10,
            kept: kept.clone(),
        },
    )
    .unwrap();
    log.info("lost").send();
    assert!(log.flush(Duration::from_secs(5)));
    assert_eq!(log.write_errors(), 1);
    log.info("lost too").send();
    assert!(log.flush(Duration::from_secs(5)));
    assert_eq!(log.write_errors(), 2);
    open.store(true, Ordering::SeqCst);
    log.info("kept").send();
    let text = kept.text(&log);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].len() == 10 && lines[1].contains("\"msg\":\"kept\""), "{text}");
    assert_eq!(log.write_errors(), 2);
}

/// Takes nothing until released.
struct Stuck(std::sync::mpsc::Receiver<()>, Captured);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_queue_blocks_and_loses_no_line() {
    let (release, gate) = std::sync::mpsc::channel();
    let kept = Captured::default();
    let log = Log::new(Format::Json, Stuck(gate, kept.clone())).unwrap();
    const LINES: usize = 4000;
    let sent = Arc::new(AtomicU64::new(0));
    let sender = std::thread::spawn({
        let (log, sent) = (log.clone(), Arc::clone(&sent));
        move || {
            for index in 0..LINES {
                log.info("code run")
                    .text("filler", &"x".repeat(200))
                    .count("index", index)
                    .send();
                sent.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    while sent.load(Ordering::SeqCst) < 500 {
        std::thread::yield_now();
    }
    assert!(!log.flush(Duration::from_millis(200)), "nothing has been written");
    // Each line is longer than its filler; one batch may wait behind the one being written.
    let room = 2 * QUEUE_BYTES as u64 / 200;
    let waiting = sent.load(Ordering::SeqCst);
    assert!(waiting <= room, "the queue took {waiting} lines without bound");
    drop(release);
    sender.join().unwrap();
    let records = kept.records(&log);
    assert_eq!(records.len(), LINES);
    assert!(
        records
            .iter()
            .enumerate()
            .all(|(index, record)| record["index"] == index)
    );
}
