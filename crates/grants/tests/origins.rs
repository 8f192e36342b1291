//! Origins: which base URLs are accepted, how they are counted, and which addresses are dialled for them.

use std::net::IpAddr;

use plimsoll_grants::{Cidr, DialRefused, Host, Origin, OriginError, check_answers, may_dial};
use proptest::prelude::*;

#[test]
fn whatever_is_more_or_less_than_an_origin_is_refused() {
    use OriginError::*;

    for (text, problem) in [
        ("", Missing),
        ("  ", Missing),
        ("h", Syntax),
        ("https:", Syntax),
        ("https:/h", Syntax),
        ("https://", Syntax),
        ("https://.", Syntax),
        (" https://h", Scheme),
        ("https://h ", Syntax),
        ("https://h\n", Syntax),
        ("https://h\\x", Syntax),
        ("ftp://h.internal", Scheme),
        ("://h", Scheme),
        ("http://h.internal", Plaintext),
        ("http://10.0.0.1", Plaintext),
        ("http://localhost.example", Plaintext),
        ("http://[::2]", Plaintext),
        ("https://u:p@h", UserInfo),
        ("https://u@h", UserInfo),
        ("https://h/api", NotAnOrigin),
        ("https://h/", NotAnOrigin),
        ("https://h/a@b", NotAnOrigin),
        ("https://h?x", NotAnOrigin),
        ("https://h?", NotAnOrigin),
        ("https://h#f", NotAnOrigin),
        ("https://h#", NotAnOrigin),
        ("https://h:", Port),
        ("https://h:0", Port),
        ("https://h:65536", Port),
        ("https://h:+1", Port),
        ("https://h:1:2", Port),
        ("https://::1", Syntax),
        ("https://[::1]x", Syntax),
        ("https://[::1", OddAddress),
        ("https://[fe80::1%25eth0]", OddAddress),
        ("https://2130706433", OddAddress),
        ("https://0x7f000001", OddAddress),
        ("https://0x7f.1", OddAddress),
        ("https://127.1", OddAddress),
        ("https://127.0.0.1.", OddAddress),
        ("https://0177.0.0.1", OddAddress),
        ("https://256.0.0.1", OddAddress),
        ("https://h.0x", OddAddress),
        ("https://\u{ff11}27.0.0.1", OddAddress),
        ("https://\u{ff11}", Name),
        ("https://caf\u{e9}.example", Name),
        ("https://h%2e", Name),
        ("https://-h", Name),
        ("https://a..b", Name),
        ("https://h..", Name),
        ("https://169.254.169.254", Metadata),
        ("https://100.100.100.200", Metadata),
        ("https://168.63.129.16", Metadata),
        ("https://[fd00:ec2::254]", Metadata),
        ("https://[::ffff:169.254.169.254]", Metadata),
        ("https://[64:ff9b::a9fe:a9fe]", Metadata),
    ] {
        assert_eq!(Origin::parse(text), Err(problem), "{text:?}");
    }
    assert!(Origin::parse(&format!("https://{}", "a".repeat(63))).is_ok());
    assert_eq!(Origin::parse(&format!("https://{}", "a".repeat(64))), Err(Name));
}

#[test]
fn an_origin_is_kept_as_written_and_taken_apart() {
    for (text, https, port, authority) in [
        ("https://h:8443", true, 8443, "h:8443"),
        ("https://api.example.com", true, 443, "api.example.com"),
        ("HTTPS://API.example:443", true, 443, "API.example"),
        ("https://h.example.", true, 443, "h.example."),
        ("https://10.0.0.5", true, 443, "10.0.0.5"),
        ("https://xn--caf-dma.example", true, 443, "xn--caf-dma.example"),
        ("http://127.0.0.1:8080", false, 8080, "127.0.0.1:8080"),
        ("http://127.9.9.9", false, 80, "127.9.9.9"),
        ("http://LOCALHOST:1", false, 1, "LOCALHOST:1"),
        ("http://[::1]:9", false, 9, "[::1]:9"),
        ("http://[::ffff:127.0.0.1]", false, 80, "[::ffff:127.0.0.1]"),
    ] {
        let origin = Origin::parse(text).unwrap();
        assert_eq!(
            (origin.as_str(), origin.is_https(), origin.port(), origin.authority()),
            (text, https, port, authority)
        );
    }
}

#[test]
fn texts_that_reach_one_place_are_counted_as_one() {
    for (canonical, texts) in [
        (
            "https://api.example",
            &[
                "https://api.example",
                "https://API.example.:443",
                "https://api.example:0443",
            ][..],
        ),
        ("http://[::1]", &["http://[::1]:80", "http://[0:0:0:0:0:0:0:1]"]),
        ("http://127.0.0.1", &["http://[::ffff:127.0.0.1]", "http://127.0.0.1"]),
        ("https://api.example:80", &["https://api.example:80"]),
    ] {
        for text in texts {
            assert_eq!(Origin::parse(text).unwrap().canonical(), canonical, "{text}");
        }
    }
}

fn name() -> Host {
    Host::Name("api.example".to_owned())
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn blocks(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().expect("a block")).collect()
}

#[test]
fn a_name_is_dialled_at_global_addresses_only() {
    for address in [
        "93.184.215.14",
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1",
        "64:ff9b::808:808",
    ] {
        assert!(may_dial(&name(), ip(address), &[]), "{address}");
    }
    for address in [
        "0.0.0.0",
        "10.0.0.5",
        "127.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "169.254.1.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:10.0.0.5",
        "::10.0.0.5",
        "64:ff9b::10.0.0.5",
        "64:ff9b:1::1",
        "100::1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "2001::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:a00:5::1",
        "3fff:fff::1",
        "5f00::1",
        "4000::1",
    ] {
        assert_eq!(
            check_answers(&name(), &[ip(address)], &[]),
            Err(DialRefused::NotGlobal(ip(address))),
            "{address}"
        );
    }
}

#[test]
fn one_bad_answer_refuses_them_all() {
    let (good, bad) = (ip("93.184.215.14"), ip("10.0.0.5"));
    assert_eq!(
        check_answers(&name(), &[good, bad], &[]),
        Err(DialRefused::NotGlobal(bad))
    );
    assert_eq!(
        check_answers(&name(), &[bad, good], &[]),
        Err(DialRefused::NotGlobal(bad))
    );
    assert_eq!(check_answers(&name(), &[good, bad], &blocks(&["10.0.0.0/8"])), Ok(()));
    assert_eq!(check_answers(&name(), &[], &[]), Err(DialRefused::NoAnswer));
}

#[test]
fn a_listed_block_opens_itself_and_never_a_metadata_address() {
    for (block, address) in [
        ("10.0.0.0/8", "10.255.0.1"),
        ("10.0.0.0/8", "::ffff:10.0.0.5"),
        ("127.0.0.0/8", "127.0.0.1"),
        ("100.64.0.0/10", "100.64.0.1"),
        ("fc00::/7", "fd12::1"),
        ("::ffff:10.0.0.0/104", "10.0.0.5"),
        ("0.0.0.0/0", "192.168.0.1"),
        ("::/0", "::1"),
        ("192.168.7.7/32", "192.168.7.7"),
        ("fd00::7/128", "fd00::7"),
    ] {
        assert!(may_dial(&name(), ip(address), &blocks(&[block])), "{block} {address}");
    }
    for (block, address) in [
        ("10.0.0.0/8", "11.0.0.5"),
        ("192.168.7.7/32", "192.168.7.6"),
        ("fd00::/16", "fd01::1"),
        ("10.0.0.0/9", "10.128.0.0"),
    ] {
        let dialled = may_dial(&name(), ip(address), &blocks(&[block]));
        assert_eq!(
            dialled,
            address == "11.0.0.5",
            "{block} {address}: 11/8 is global by itself"
        );
    }
    for address in [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "::ffff:168.63.129.16",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "2002:a9fe:a9fe::",
        "2001:0:7f00:1::5601:5601",
        "2001:0:a9fe:a9fe::a9fe:a9fe",
        "fe80::5efe:a9fe:a9fe",
    ] {
        let everything = blocks(&["0.0.0.0/0", "::/0"]);
        assert_eq!(
            check_answers(&name(), &[ip(address)], &everything),
            Err(DialRefused::Metadata(ip(address))),
            "{address}"
        );
    }
}

#[test]
fn localhost_is_loopback_and_a_literal_is_itself() {
    let localhost = Host::Name("LocalHost.".to_owned());
    assert!(may_dial(&localhost, ip("127.0.0.1"), &[]) && may_dial(&localhost, ip("::1"), &[]));
    assert!(!may_dial(&localhost, ip("93.184.215.14"), &[]));
    assert!(!may_dial(&localhost, ip("10.0.0.5"), &blocks(&["10.0.0.0/8"])));
    let literal = Host::Address(ip("10.0.0.5"));
    assert!(may_dial(&literal, ip("10.0.0.5"), &[]));
    assert_eq!(
        check_answers(&literal, &[ip("10.0.0.6")], &[]),
        Err(DialRefused::NotAsWritten(ip("10.0.0.6")))
    );
}

#[test]
fn a_block_has_a_prefix_and_no_bit_behind_it() {
    for text in [
        "10.0.0.1/8",
        "x",
        "",
        "10.0.0.0",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/+8",
        "10.0.0.0/08",
        "10.0.0.0/8 ",
        "10/8",
        "fd00::/129",
        "fd00::1/64",
        "0.0.0.1/0",
        "::1/0",
        "::1/127",
        "10.0.0.0/256",
        "fd00::/0",
    ] {
        assert!(text.parse::<Cidr>().is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn an_accepted_origin_has_one_canonical_text_that_reads_back(text in "(?i:https?)://[a-z0-9.:\\[\\]-]{1,24}") {
        let Ok(origin) = Origin::parse(&text) else { return Ok(()) };
        let canonical = origin.canonical();
        let again = Origin::parse(&canonical).unwrap();
        prop_assert_eq!(again.canonical(), canonical);
        prop_assert_eq!((again.is_https(), again.port()), (origin.is_https(), origin.port()));
    }

    #[test]
    fn a_block_holds_exactly_the_addresses_that_share_its_prefix(base in any::<u32>(), prefix in 0_u32..=32, other in any::<u32>()) {
        let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
        let network = std::net::Ipv4Addr::from_bits(base & mask);
        let block: Cidr = format!("{network}/{prefix}").parse().unwrap();
        let expected = other & mask == base & mask;
        let address = std::net::Ipv4Addr::from_bits(other);
        prop_assert_eq!(block.contains(address.into()), expected);
        prop_assert_eq!(block.contains(address.to_ipv6_mapped().into()), expected);
    }
}
