//! What is over a cap is refused with the reason.

use flamelet_collect::{Caps, Offered};

use crate::support::{HOUR, Site, T0, cpu, heap, offered};

fn refused(site: &Site, caps: Caps, offer: &Offered) -> (u16, String) {
    let mut options = site.options();
    options.caps = caps;
    let refused = site.open_with(options).accept(offer).expect_err("refused");
    (refused.status, refused.message)
}

#[test]
fn what_is_over_a_cap_is_refused_with_its_name() {
    let site = Site::new();
    let profile = cpu(T0, &[("main", 1)]);
    let good = offered("checkout", &[("a", "1"), ("b", "2")], &profile);
    let caps = Caps::default();
    let many = "x".repeat(5000);
    for (caps, offer, status, words) in [
        (Caps { labels: 1, ..caps }, good.clone(), 400, "limits.labels"),
        (Caps { profile: 10, ..caps }, good.clone(), 413, "limits.profile"),
        (Caps { services: 0, ..caps }, good.clone(), 429, "limits.services"),
        (Caps { series: 0, ..caps }, good.clone(), 429, "limits.series"),
        (caps, offered("checkout", &[("a", &many)], &profile), 400, "limits.label_value"),
        (caps, offered("", &[], &profile), 400, "service_name is missing"),
        (caps, offered("a\nb", &[], &profile), 400, "control characters"),
        (caps, Offered { name: Some("a:b".into()), ..good.clone() }, 400, "__name__"),
        (caps, Offered { bytes: b"nonsense".to_vec(), ..good.clone() }, 400, "not a profile"),
        (caps, Offered { bytes: vec![0x1f, 0x8b, 1], ..good.clone() }, 400, "gzip"),
        (caps, offered("checkout", &[], &cpu(i64::MAX / 2, &[("main", 1)])), 400, "ahead"),
        (caps, offered("checkout", &[], &cpu(-HOUR * 24 * 365 * 100, &[("main", 1)])), 400, "are kept for"),
    ] {
        let (found, message) = refused(&site, caps, &offer);
        assert!(found == status && message.contains(words) && !message.contains('\n'), "{found} {message}");
    }
    assert_eq!(site.services(), Vec::<String>::new(), "nothing was kept");
}

#[test]
fn a_storm_of_labels_is_stopped() {
    let site = Site::new();
    let mut options = site.options();
    options.caps.series = 100;
    let collector = site.open_with(options);
    let mut refusals = 0;
    for request in 0..300 {
        let text = request.to_string();
        let offer = offered("checkout", &[("request_id", &text)], &cpu(T0 + request * 1000, &[("main", 1)]));
        refusals += usize::from(collector.accept(&offer).is_err_and(|refused| refused.status == 429));
    }
    assert_eq!(refusals, 200);
    assert_eq!(site.total("checkout", T0, T0 + HOUR), Some((100, 1000)));
    collector.accept(&offered("cart", &[], &cpu(T0, &[("main", 1)]))).expect("other services go on");
}

#[test]
fn a_bomb_is_not_unpacked() {
    let site = Site::new();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..64 {
        std::io::Write::write_all(&mut packed, &zeros).expect("packed");
    }
    let bytes = packed.finish().expect("packed");
    assert!(bytes.len() < 1 << 20);
    let bomb = Offered { service: "checkout".into(), bytes, ..Offered::default() };
    let (status, message) = refused(&site, Caps::default(), &bomb);
    assert!(status == 413 && message.contains("limits.profile"), "{status} {message}");
}

#[test]
fn totals_that_were_refused_are_counted_when_they_are_sent_again() {
    let site = Site::new();
    let mut options = site.options();
    options.caps.series = 1;
    let collector = site.open_with(options);
    let send = |at: i64, allocated: i64| {
        let offer = offered("checkout", &[], &heap(T0 + at * 1000, allocated, 10));
        collector.accept(&Offered { is_delta: false, ..offer })
    };
    collector.accept(&offered("checkout", &[("zone", "b")], &cpu(T0, &[("main", 1)]))).expect("accepted");
    for _ in 0..2 {
        // The only series of the hour is taken: 429.
        assert_eq!(send(0, 100).expect_err("refused").status, 429);
    }
    // In the next hour there is room.
    let hour = HOUR / 1000;
    send(hour, 100).expect("the first one");
    send(hour + 2, 130).expect("accepted");
    send(hour + 1, 110).expect("late");
    send(hour + 3, 131).expect("accepted");
    let profile = site.profile("checkout", "memory", T0, T0 + 2 * HOUR).expect("a profile");
    assert_eq!((profile.total(0), profile.total(1)), (31, 10));
}
